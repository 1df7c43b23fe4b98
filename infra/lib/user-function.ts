import { Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

/** A user's function, with its resource for settings that only the template has. */
export interface UserFunction {
  /** The prop that names it, and its path. */
  readonly name: string;
  readonly function: lambda.Function;
  readonly resource: lambda.CfnFunction;
}

/** The changes that a construct makes to a user's function, for error messages. */
export interface Change {
  /** The construct's name. */
  readonly by: string;
  /** Settings that an imported function cannot get: `neither … nor …`. */
  readonly settings: string;
  /** The reason why an alias or a version is refused. */
  readonly whyNoAlias: string;
}

/** The function, or a sentence why it cannot be modified. */
export function modifiable(target: lambda.IFunction, name: string, change: Change, stack: Stack): UserFunction | string {
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
  // Unresolved: another of our constructs allows the loop already.
  if (recursiveLoop !== undefined && recursiveLoop !== lambda.RecursiveLoop.ALLOW && !Token.isUnresolved(recursiveLoop)) {
    return `${name} sets recursiveLoop to ${recursiveLoop}, so Lambda would drop its retries after about 16; remove it.`;
  }
  return { name, function: target, resource };
}
