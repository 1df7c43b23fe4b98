import { Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

/** A user's function, and what of it can be set only in its template. */
export interface UserFunction {
  /** In the props, and its path. */
  readonly name: string;
  readonly function: lambda.Function;
  readonly resource: lambda.CfnFunction;
}

/** What a construct changes of it. */
export interface Change {
  /** The construct's name. */
  readonly by: string;
  /** What an imported function cannot be given: `neither … nor …`. */
  readonly settings: string;
  /** Why it cannot be an alias or a version. */
  readonly notOfAlias: string;
}

/** The function, or why it cannot be changed. */
export function changeable(target: lambda.IFunction, name: string, change: Change, stack: Stack): UserFunction | string {
  if (target instanceof lambda.Alias || target instanceof lambda.Version) {
    return `${name} is an alias or a version, ${change.notOfAlias}; give the function itself.`;
  }
  const resource = target.node.defaultChild;
  if (!(target instanceof lambda.Function) || !(resource instanceof lambda.CfnFunction)) {
    return `${name} is imported, so that ${change.settings} can be set; create it in this stack.`;
  }
  if (Stack.of(target) !== stack) {
    return `${name} is in another stack (${Stack.of(target).stackName}), but its settings are changed; put ${change.by} into that one.`;
  }
  if (resource.recursiveLoop !== undefined && resource.recursiveLoop !== lambda.RecursiveLoop.ALLOW) {
    return `${name} sets recursiveLoop to ${resource.recursiveLoop}, with which Lambda drops its retries after some 16; remove it.`;
  }
  return { name, function: target, resource };
}
