// SQS through the AWS SDK: one request a call, one outcome an entry. Retrying is delivery's business.

import {
  SQSClient, SendMessageBatchCommand, type SQSClientConfig, type SendMessageBatchRequestEntry, type SendMessageBatchResult,
} from '@aws-sdk/client-sqs';

import type { EntryError, EntryOutcome, Outgoing, Queue } from './delivery.ts';

/** As much of `SQSClient` as is used: another version's, or a test's. */
export type SqsSender = Pick<SQSClient, 'send'>;

/**
 * Asks once. There is no limit to a request's time: delivery ends at its deadline, and a late answer is better than
 * none. And no checksums: one entry's would make an error of all ten, and they would be sent once more.
 */
export function newClient(settings: SQSClientConfig = {}): SQSClient {
  return new SQSClient({ maxAttempts: 1, md5: false, requestHandler: { connectionTimeout: 3000 }, ...settings });
}

export function sqsQueue(client: SqsSender, queueUrl: string): Queue {
  return {
    send: async (entries, cutOff) => {
      try {
        const request = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries.map(entry) });
        return outcomes(entries.length, await client.send(request, { abortSignal: cutOff }));
      } catch (error) {
        return entries.map(() => failedRequest(error as SdkError));
      }
    },
  };
}

function entry(outgoing: Outgoing, index: number): SendMessageBatchRequestEntry {
  const { body, attributes, messageGroupId, traceHeader } = outgoing;
  const all = [...attributes].map(([name, { dataType: DataType, value }]) => {
    return [name, typeof value === 'string' ? { DataType, StringValue: value } : { DataType, BinaryValue: value }];
  });
  return {
    Id: String(index),
    MessageBody: body,
    DelaySeconds: 0,
    MessageAttributes: Object.fromEntries(all),
    ...(messageGroupId !== undefined && { MessageGroupId: messageGroupId }),
    ...(traceHeader !== undefined && {
      MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: traceHeader } },
    }),
  };
}

/** By the entry's id. One that the answer does not name is not confirmed, nor is one that it calls both. */
function outcomes(count: number, { Successful = [], Failed = [] }: SendMessageBatchResult): readonly EntryOutcome[] {
  return Array.from({ length: count }, (_, index) => {
    const id = String(index);
    const failed = Failed.find((entry) => entry.Id === id);
    if (failed !== undefined) {
      const code = failed.Code ?? 'Unknown';
      const fault = isThrottle(code) ? 'throttled' : failed.SenderFault ? 'refused' : 'service';
      return { fault, code };
    }
    return Successful.some((entry) => entry.Id === id) ? undefined : { fault: 'no answer', code: 'EntryNotAnswered' };
  });
}

interface SdkError {
  readonly name?: string;
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

const NO_CONNECTION = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'];

/**
 * Errors that stay until somebody changes something (no such queue, access denied, no credentials) are final: nothing
 * is lost by that, since the records go back to their queue.
 */
function failedRequest(error: SdkError): EntryError {
  const status = error.$metadata?.httpStatusCode;
  if (status !== undefined) {
    return byStatus(status, error.name ?? `HTTP ${status}`);
  }
  if (NO_CONNECTION.includes(error.code ?? '')) {
    return { fault: 'not sent', code: 'Connect' };
  }
  if (error.name === 'CredentialsProviderError') {
    return { fault: 'refused', code: 'NoCredentials' };
  }
  // The SDK calls a connection that was broken off a timeout, too.
  const isTimeout = error.name === 'TimeoutError' && error.code === undefined;
  return { fault: 'no answer', code: isTimeout ? 'Timeout' : 'Connection' };
}

function byStatus(status: number, code: string): EntryError {
  // 503 is the one 5xx that says that nothing was begun (RFC 9110).
  if (isThrottle(code) || status === 429 || status === 503) {
    return { fault: 'throttled', code };
  }
  if (status >= 500) {
    return { fault: 'service', code };
  }
  // A request that took too long to arrive: the next may not.
  if (status === 408) {
    return { fault: 'not sent', code };
  }
  return status >= 400 ? { fault: 'refused', code } : { fault: 'no answer', code: 'UnreadableAnswer' };
}

const THROTTLES = [
  'KmsThrottled', 'OverLimit', 'RequestLimitExceeded', 'RequestThrottled', 'RequestThrottledException', 'SlowDown',
  'Throttling', 'ThrottlingException', 'TooManyRequestsException',
];

/** Codes that ask for patience, whatever status they come with; some come with the service's name before them. */
function isThrottle(code: string): boolean {
  return THROTTLES.includes(code.split(/[.#]/).at(-1) as string);
}
