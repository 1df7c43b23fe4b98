import { Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

/** A user's function, with the resource for settings that only the template contains. */
export interface UserFunction {
  /** The prop that contains the function, and the function's path. */
  readonly name: string;
  readonly function: lambda.Function;
  readonly resource: lambda.CfnFunction;
}

/** The changes that a construct makes to a user's function, for error messages. */
export interface Change {
  /** The construct's name. */
  readonly by: string;
  /** Settings that cannot be changed on an imported function, as `neither … nor …`. */
  readonly settings: string;
  /** The reason why an alias or a version is rejected. */
  readonly whyNoAlias: string;
}

/** Returns the function, or a sentence that explains why it cannot be modified. */
export function modifiableFunction(target: lambda.IFunction, name: string, change: Change, stack: Stack): UserFunction | string {
  if (target instanceof lambda.Alias || target instanceof lambda.Version) {
    return `${name} is an alias or a version, ${change.whyNoAlias}; give the function itself.`;
  }
  const resource = target.node.defaultChild;
  if (!(target instanceof lambda.Function) || !(resource instanceof lambda.CfnFunction)) {
    return `${name} is imported, so ${change.settings} can be set; create it in this stack.`;
  }
  if (Stack.of(target) !== stack) {
    return `${name} is in another stack (${Stack.of(target).stackName}), but ${change.by} changes its settings; create ${change.by} in that stack.`;
  }
  const { recursiveLoop } = resource;
  // If it is unresolved, another of our constructs already allows the loop.
  if (recursiveLoop !== undefined && recursiveLoop !== lambda.RecursiveLoop.ALLOW && !Token.isUnresolved(recursiveLoop)) {
    return `${name} sets recursiveLoop to ${recursiveLoop}, so Lambda would drop its retries after about 16; remove it.`;
  }
  return { name, function: target, resource };
}
