import { Annotations, Aspects, type CfnResource, Reference, Stack, Token, TokenComparison, Tokenization } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import type { UserFunction } from './user-function';

/** The members of which a mapping of a stream, a broker or a database has at least one, and a mapping of a queue none. */
const OF_OTHER_SERVICES = ['startingPosition', 'queues', 'topics', 'selfManagedEventSource', 'documentDbEventSourceConfig'] as const;

/** A mapping of an SQS queue to the user's function, made by the app and not by Redeliver. */
interface QueueMapping {
  readonly path: string;
  readonly queueArn: string;
}

/**
 * Mappings with which messages would bypass redeliver, a sentence each.
 *
 * @param sourceArn the source queue; `undefined`: one that is still to be made.
 * @param ours the id of Redeliver's own mapping, once it exists.
 */
export function eventSourceProblems(userFunction: UserFunction, sourceArn: string | undefined, ours?: string): string[] {
  const { name } = userFunction;
  const stack = Stack.of(userFunction.function);
  return mappingsOf(userFunction, ours)
    .filter(({ queueArn }) => sourceArn !== undefined && isSameQueue(stack, queueArn, sourceArn))
    .map(({ path }) => `${name} already has the source queue as an event source (${path}); remove it there: Redeliver makes the mapping, with the settings that it needs.`);
}

/** Refuses mappings that are added after Redeliver, and warns of other queues, whose messages bypass redeliver. */
export function watchEventSources(userFunction: UserFunction, sourceArn: string, ours: string): void {
  const { name, function: own } = userFunction;
  own.node.addValidation({ validate: () => eventSourceProblems(userFunction, sourceArn, ours) });
  // Mappings may be added at any time, so an aspect looks at the end.
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
    if (!(found instanceof lambda.CfnEventSourceMapping) || found.ref === ours || !isOfQueue(found) || !isMappedTo(found, resource, ids)) {
      return [];
    }
    return [{ path: (found.node.scope ?? found).node.path, queueArn: found.eventSourceArn ?? '' }];
  });
}

function isOfQueue(mapping: lambda.CfnEventSourceMapping): boolean {
  return mapping.eventSourceArn !== undefined && OF_OTHER_SERVICES.every((property) => mapping[property] === undefined);
}

/** Logical ids of a function, its versions and its aliases, which all start with redeliver's program. */
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

/** True if a resolved value refers to one of these logical ids. */
function mentions(resolved: unknown, logicalIds: readonly string[]): boolean {
  const text = JSON.stringify(resolved);
  return logicalIds.some((id) => text.includes(`{"Ref":"${id}"}`) || text.includes(`{"Fn::GetAtt":["${id}",`));
}

/** The resource that a token refers to. */
export function targetOf(text: string): unknown {
  const { firstToken } = Tokenization.reverseString(text);
  return Reference.isReference(firstToken) ? firstToken.target : undefined;
}

/** Compares queues by their resources, or by their names if their places may be the same. */
export function isSameQueue(stack: Stack, one: string, other: string): boolean {
  if (one === other || (targetOf(one) !== undefined && targetOf(one) === targetOf(other))) {
    return true;
  }
  const [its, ours] = [placeOf(stack, one), placeOf(stack, other)];
  const mayBeSame = (a: string, b: string): boolean => Token.compareStrings(a, b) !== TokenComparison.DIFFERENT;
  return its.name !== undefined && its.name === ours.name && mayBeSame(its.region, ours.region) && mayBeSame(its.account, ours.account);
}

/** A queue's place, and its name if that is known. */
function placeOf(stack: Stack, queueArn: string): { readonly region: string; readonly account: string; readonly name: string | undefined } {
  const queue = targetOf(queueArn);
  if (queue instanceof sqs.CfnQueue) {
    const { region, account } = Stack.of(queue);
    const name = queue.queueName;
    return { region, account, name: Token.isUnresolved(name) ? undefined : name };
  }
  // The ARN's last part; an ARN with tokens for its place is one of this stack.
  const [, , , region = stack.region, account = stack.account, name] = queueArn.split(':');
  return { region, account, name: name === undefined || Token.isUnresolved(name) ? undefined : name };
}
