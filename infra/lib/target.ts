import type { Duration } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';

import type { HandlerEvent } from './choices';

/** What is called for every message. */
export class Target {
  /**
   * POSTs the message to a URL.
   *
   * @param url an https:// URL without credentials in it.
   */
  public static http(url: string, options?: HttpTargetOptions): Target {
    return new Target({ ...options, kind: 'http', url });
  }

  /**
   * Invokes a Lambda function and waits for its answer.
   *
   * @param target with more than about 15 retries it needs `recursiveLoop: ALLOW`, too: Lambda stops a loop that has come through a
   * function 16 times ("Use Lambda recursive loop detection to prevent infinite loops").
   */
  public static lambdaFunction(target: lambda.IFunction, options?: LambdaTargetOptions): Target {
    return new Target({ ...options, kind: 'lambda', function: target });
  }

  /**
   * Your own Rust handler, built into a message-processor of its own.
   *
   * @param bundle the directory with its `bootstrap`.
   */
  public static handler(bundle: string): Target {
    return new Target({ kind: 'handler', bundle });
  }

  /**
   * Your own function, unchanged, in the message-processor's place (docs/own-function.md): a Lambda layer holds redeliver's
   * program, which starts the function's runtime and calls its handler. For Node.js, Python, Java, .NET and Ruby. It is given its queue,
   * its rights and its settings; all else that is a function's (timeout, memory, VPC, reserved concurrency, logs) you set on the function.
   *
   * @param own created in the same stack, since its settings are changed, with a timeout of more than 10 s, and without SnapStart. It gets
   * a layer, environment variables, the source queue as an event source, and `recursiveLoop: ALLOW`. Its `AWS_LAMBDA_EXEC_WRAPPER` becomes
   * redeliver's program; another wrapper that was there before is run as well. The source queue's messages go to `$LATEST`; versions
   * and aliases of the function start with redeliver's program, too.
   */
  public static ownFunction(own: lambda.IFunction, options?: OwnFunctionOptions): Target {
    return new Target({ ...options, kind: 'function', function: own });
  }

  /** @internal */
  public readonly _given: GivenTarget;

  private constructor(given: GivenTarget) {
    this._given = given;
  }
}

/** How a URL is called. */
export interface HttpTargetOptions {
  /** A secret, JSON of header names and values, sent with every call. Only the message-processor may read it. Default: none. */
  readonly headersSecret?: secretsmanager.ISecret;
  /** Allow an http:// URL, e.g. of a service inside the VPC. Default: false. */
  readonly allowHttp?: boolean;
  /** How long one call may take, 1 s to 900 s. Default: 30 s. */
  readonly timeout?: Duration;
}

/** How a function is invoked. */
export interface LambdaTargetOptions {
  /** How long one call may take, 1 s to 900 s. Default: 30 s. */
  readonly timeout?: Duration;
}

/** How a function of your own works. */
export interface OwnFunctionOptions {
  /** The event of one invocation of your handler. Default: `HandlerEvent.RECORD`. */
  readonly handlerEvent?: HandlerEvent;
}

/** A target by its kind. */
export type GivenTarget =
  | ({ readonly kind: 'http'; readonly url: string } & HttpTargetOptions)
  | ({ readonly kind: 'lambda'; readonly function: lambda.IFunction } & LambdaTargetOptions)
  | { readonly kind: 'handler'; readonly bundle: string }
  | ({ readonly kind: 'function'; readonly function: lambda.IFunction } & OwnFunctionOptions);
