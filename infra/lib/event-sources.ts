import { Annotations, Aspects, type CfnResource, Reference, Stack, Token, TokenComparison, Tokenization } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import type { UserFunction } from './user-function';

/** Mappings for streams, brokers and databases have at least one of these members; mappings for queues have none. */
const NON_QUEUE_PROPERTIES = ['startingPosition', 'queues', 'topics', 'selfManagedEventSource', 'documentDbEventSourceConfig'] as const;

/** A mapping from an SQS queue to the user's function, created by the app, not by Redeliver. */
interface QueueMapping {
  readonly path: string;
  readonly queueArn: string;
}

/**
 * Returns a sentence for each mapping through which messages would bypass redeliver.
 *
 * @param sourceArn the source queue; `undefined` if it is not created yet.
 * @param ours the id of Redeliver's own mapping, once it exists.
 */
export function eventSourceProblems(userFunction: UserFunction, sourceArn: string | undefined, ours?: string): string[] {
  const { name } = userFunction;
  const stack = Stack.of(userFunction.function);
  return mappingsOf(userFunction, ours)
    .filter(({ queueArn }) => sourceArn !== undefined && isSameQueue(stack, queueArn, sourceArn))
    .map(({ path }) => `${name} already has the source queue as an event source (${path}); remove it there: Redeliver makes the mapping, with the settings that it needs.`);
}

/**
 * Rejects mappings for the source queue that are added after Redeliver, and warns about other queues, whose messages
 * bypass redeliver.
 */
export function watchEventSources(userFunction: UserFunction, sourceArn: string, ours: string): void {
  const { name, function: own } = userFunction;
  own.node.addValidation({ validate: () => eventSourceProblems(userFunction, sourceArn, ours) });
  // Mappings may be added at any time, so an aspect checks them at synthesis.
  Aspects.of(own).add({
    visit: (node) => {
      const others = node === own ? mappingsOf(userFunction, ours).filter(({ queueArn }) => !isSameQueue(Stack.of(own), queueArn, sourceArn)) : [];
      for (const { path } of others) {
        Annotations.of(own).addWarningV2(
          '@redeliver/cdk:anotherQueueOfFunction',
          `${name} has another queue as an event source (${path}): its batches reach the handler unchanged, without any of redeliver's guarantees; give that ` +
            'queue a function of its own, or acknowledge this.',
        );
      }
    },
  });
}

function mappingsOf({ function: own, resource }: UserFunction, ours: string | undefined): QueueMapping[] {
  const ids = logicalIdsOf(resource);
  return own.node.root.node.findAll().flatMap((found) => {
    if (!(found instanceof lambda.CfnEventSourceMapping) || found.ref === ours || !readsQueue(found) || !isMappedTo(found, resource, ids)) {
      return [];
    }
    return [{ path: (found.node.scope ?? found).node.path, queueArn: found.eventSourceArn ?? '' }];
  });
}

function readsQueue(mapping: lambda.CfnEventSourceMapping): boolean {
  return mapping.eventSourceArn !== undefined && NON_QUEUE_PROPERTIES.every((property) => mapping[property] === undefined);
}

/** Returns the logical ids of a function, its versions and its aliases, all of which run redeliver's program. */
function logicalIdsOf(resource: lambda.CfnFunction): readonly string[] {
  const stack = Stack.of(resource);
  const idOf = ({ logicalId }: CfnResource): string => String(stack.resolve(logicalId));
  const qualified = stack.node.findAll().filter((found) => found instanceof lambda.CfnVersion || found instanceof lambda.CfnAlias);
  return [resource, ...qualified.filter(({ functionName }) => mentions(stack.resolve(functionName), [idOf(resource)]))].map(idOf);
}

function isMappedTo(mapping: lambda.CfnEventSourceMapping, resource: lambda.CfnFunction, logicalIds: readonly string[]): boolean {
  const { functionName } = mapping;
  if (!Token.isUnresolved(functionName)) {
    const name: unknown = resource.functionName;
    return typeof name === 'string' && !Token.isUnresolved(name) && functionName.replace(/^.*:function:/, '').split(':')[0] === name;
  }
  return Stack.of(mapping) === Stack.of(resource) ? mentions(Stack.of(resource).resolve(functionName), logicalIds) : targetOf(functionName) === resource;
}

/** Returns true if a resolved value refers to one of these logical ids. */
function mentions(resolved: unknown, logicalIds: readonly string[]): boolean {
  const text = JSON.stringify(resolved);
  return logicalIds.some((id) => text.includes(`{"Ref":"${id}"}`) || text.includes(`{"Fn::GetAtt":["${id}",`));
}

/** Returns the resource that a token refers to. */
export function targetOf(text: string): unknown {
  const { firstToken } = Tokenization.reverseString(text);
  return Reference.isReference(firstToken) ? firstToken.target : undefined;
}

/** Compares queues by their resources, or by their names if they may be in the same account and region. */
export function isSameQueue(stack: Stack, one: string, other: string): boolean {
  if (one === other || (targetOf(one) !== undefined && targetOf(one) === targetOf(other))) {
    return true;
  }
  const [its, ours] = [placeOf(stack, one), placeOf(stack, other)];
  const mayBeSame = (a: string, b: string): boolean => Token.compareStrings(a, b) !== TokenComparison.DIFFERENT;
  return its.name !== undefined && its.name === ours.name && mayBeSame(its.region, ours.region) && mayBeSame(its.account, ours.account);
}

/** Returns a queue's account and region, and its name if known. */
function placeOf(stack: Stack, queueArn: string): { readonly region: string; readonly account: string; readonly name: string | undefined } {
  const queue = targetOf(queueArn);
  if (queue instanceof sqs.CfnQueue) {
    const { region, account } = Stack.of(queue);
    const name = queue.queueName;
    return { region, account, name: Token.isUnresolved(name) ? undefined : name };
  }
  // The name is the last part of the ARN. An ARN whose account and region are tokens belongs to this stack.
  const [, , , region = stack.region, account = stack.account, name] = queueArn.split(':');
  return { region, account, name: name === undefined || Token.isUnresolved(name) ? undefined : name };
}
