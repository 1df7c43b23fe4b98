// The AWS SDK as it is, against a server of our own: what its answers and failures mean.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import type { EntryOutcome, Outgoing } from '../src/delivery.ts';
import { newClient, sqsQueue } from '../src/sqs.ts';

type Answer = (request: any, response: ServerResponse, incoming: IncomingMessage) => void;

const settings = { region: 'eu-central-1', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } };
const message = (body: string): Outgoing => ({ body, attributes: new Map(), messageGroupId: undefined, traceHeader: undefined });

async function sent(answer: Answer, entries: Outgoing[] = [message('a')]): Promise<readonly EntryOutcome[]> {
  let requests = 0;
  const server = createServer((incoming, response) => {
    requests += 1;
    let text = '';
    incoming.on('data', (chunk) => (text += chunk)).on('end', () => answer(JSON.parse(text), response, incoming));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const url = `${endpoint}/0/intermediate`;
  const client = newClient({ ...settings, endpoint });
  try {
    const outcomes = await sqsQueue(client, url).send(entries, AbortSignal.timeout(5000));
    assert.equal(requests, 1, 'what can be tried again is tried again by us');
    return outcomes;
  } finally {
    client.destroy();
    server.closeAllConnections();
    server.close();
  }
}

const json = (status: number, body: object): Answer => (_, response) => {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
};
const of = (fault: string, code: string) => [{ fault, code }];

test('all that a message has is sent', async () => {
  const attributes = new Map<string, any>([
    ['a', { dataType: 'String', value: 'x' }],
    ['b', { dataType: 'Binary', value: Buffer.from([0, 255]) }],
    ['n', { dataType: 'Number.int', value: '7' }],
  ]);
  let found: any;
  const outcomes = await sent((request, response, incoming) => {
    found = request;
    json(200, { Successful: [{ Id: '0', MessageId: 'm' }] })(request, response, incoming);
  }, [{ body: 'a', attributes, messageGroupId: 'g', traceHeader: 'Root=1' }]);
  assert.deepEqual(outcomes, [undefined]);
  assert.deepEqual(found.Entries, [{
    Id: '0',
    MessageBody: 'a',
    DelaySeconds: 0,
    MessageAttributes: {
      a: { DataType: 'String', StringValue: 'x' },
      b: { DataType: 'Binary', BinaryValue: 'AP8=' },
      n: { DataType: 'Number.int', StringValue: '7' },
    },
    MessageGroupId: 'g',
    MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: 'Root=1' } },
  }]);
  assert.match(found.QueueUrl, /\/0\/intermediate$/);
});

test('an attribute with a name that objects have is not lost', async () => {
  const odd = new Map([['__proto__', { dataType: 'String', value: 'x' }]]);
  let names: string[] = [];
  const outcomes = await sent((request, response, incoming) => {
    names = Object.keys(request.Entries[0].MessageAttributes);
    json(200, { Successful: [{ Id: '0', MessageId: 'm' }] })(request, response, incoming);
  }, [{ ...message('a'), attributes: odd }]);
  assert.deepEqual([names, outcomes], [['__proto__'], [undefined]]);
});

test('an answer tells of each entry, and what it leaves out is not confirmed', async () => {
  const outcomes = await sent(json(200, {
    Successful: [{ Id: '0', MessageId: 'm' }, { Id: '4', MessageId: 'm' }],
    Failed: [
      { Id: '1', SenderFault: true, Code: 'InvalidMessageContents' },
      { Id: '2', SenderFault: false, Code: 'InternalError' },
      { Id: '3', SenderFault: true, Code: 'KMS.ThrottlingException' },
      { Id: '4', SenderFault: true, Code: 'Both' },
    ],
  }), Array.from({ length: 6 }, () => message('a')));
  assert.deepEqual(outcomes, [
    undefined,
    { fault: 'refused', code: 'InvalidMessageContents' },
    { fault: 'service', code: 'InternalError' },
    { fault: 'throttled', code: 'KMS.ThrottlingException' },
    { fault: 'refused', code: 'Both' },
    { fault: 'no answer', code: 'EntryNotAnswered' },
  ]);
});

test('the status says whose fault a failed request is', async () => {
  const error = (status: number, type: string) => sent(json(status, { __type: type, message: 'canary' }));
  assert.deepEqual(await error(400, 'com.amazonaws.sqs#QueueDoesNotExist'), of('refused', 'QueueDoesNotExist'));
  assert.deepEqual(await error(403, 'AccessDeniedException'), of('refused', 'AccessDeniedException'));
  assert.deepEqual(await error(400, 'com.amazonaws.sqs#RequestThrottled'), of('throttled', 'RequestThrottled'));
  assert.equal((await error(500, 'InternalFailure'))[0]?.fault, 'service');
  assert.equal((await error(503, 'ServiceUnavailable'))[0]?.fault, 'throttled');
  assert.equal((await error(408, 'RequestTimeout'))[0]?.fault, 'not sent');
});

test('a lost answer and one that cannot be read may have been done', async () => {
  const lost = await sent((_, response) => response.destroy());
  assert.deepEqual(lost, of('no answer', 'Connection'));
  const unreadable = await sent((_, response) => response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end('{"Succ'));
  assert.deepEqual(unreadable, of('no answer', 'UnreadableAnswer'));
});

test('what did not get there was not sent, and without credentials nothing is tried again', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const endpoint = `http://127.0.0.1:${port}`;
  const url = `${endpoint}/0/q`;
  const nobody = newClient({ ...settings, endpoint });
  assert.deepEqual(await sqsQueue(nobody, url).send([message('a')], AbortSignal.timeout(5000)), of('not sent', 'Connect'));
  const credentials = () => Promise.reject(Object.assign(new Error('none'), { name: 'CredentialsProviderError' }));
  const without = newClient({ ...settings, endpoint, credentials });
  assert.deepEqual(await sqsQueue(without, url).send([message('a')], AbortSignal.timeout(5000)), of('refused', 'NoCredentials'));
});
