import type { Duration } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';

import type { HandlerEvent } from './choices';
import type { SigV4 } from './sigv4';

/** The target that is called for every message. */
export class Target {
  /**
   * POSTs each message to a URL.
   *
   * @param url an https:// URL without credentials.
   */
  public static http(url: string, options?: HttpTargetOptions): Target {
    return new Target({ ...options, kind: 'http', url });
  }

  /**
   * POSTs each message to a URL that is itself a secret, for example because its path or query contains a token.
   *
   * @param secret a secret with a JSON object whose member `:url` is the https:// URL. It may also have the members of
   * {@link HttpTargetOptions.headersSecret}.
   */
  public static httpFromSecret(secret: secretsmanager.ISecret, options?: HttpCallOptions): Target {
    return new Target({ ...options, kind: 'httpFromSecret', secret });
  }

  /**
   * Invokes a Lambda function with each message and waits for its result.
   *
   * @param target the function; for more than about 15 retries, it needs `recursiveLoop: ALLOW`. Lambda stops a loop
   * that has passed through a function 16 times ("Use Lambda recursive loop detection to prevent infinite loops").
   */
  public static lambdaFunction(target: lambda.IFunction, options?: LambdaTargetOptions): Target {
    return new Target({ ...options, kind: 'lambda', function: target });
  }

  /**
   * Runs your own Rust handler, built into its own message-processor.
   *
   * @param bundle the directory that contains `bootstrap`.
   */
  public static handler(bundle: string): Target {
    return new Target({ kind: 'handler', bundle });
  }

  /**
   * Uses your own function, with unchanged code, as the message-processor (docs/own-function.md). A Lambda layer adds
   * redeliver's program, which starts the function's runtime and calls its handler. Supports Node.js, Python, Java,
   * .NET and Ruby. The construct sets the queue, the permissions and the variables; you set the timeout, memory, VPC,
   * reserved concurrency and logs on the function.
   *
   * @param own a function in the same stack, with a timeout of more than 10 s and without SnapStart. Its settings
   * change: it gets a layer, environment variables, the source queue as an event source, and `recursiveLoop: ALLOW`.
   * `AWS_LAMBDA_EXEC_WRAPPER` is set to redeliver's program, which also runs a previously set wrapper. The source
   * queue's messages are delivered to `$LATEST`; versions and aliases of the function also start with redeliver's
   * program.
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

/** Options of all HTTP targets. */
export interface HttpCallOptions {
  /** Signs the calls with the message-processor's role, for an AWS target with IAM authorization. Default: none. */
  readonly sigV4?: SigV4;
  /** A proxy for the calls, such as `http://proxy:3128`. It sees only the host name. Default: none. */
  readonly proxy?: string;
  /**
   * JSON Pointers into the body of a failed response, such as `/type`, whose values are recorded in the dead letter. At
   * most 8, to strings and numbers. The first `type` or `code` becomes part of the error type. The values are never
   * logged. Default: no part of the body is recorded.
   */
  readonly errorExcerpt?: string[];
  /** Allows an http:// URL, for example of a service in the VPC. Default: false. */
  readonly allowHttp?: boolean;
  /** The timeout of one call, 1 s to 900 s. Default: 30 s. */
  readonly timeout?: Duration;
}

/** Options of an HTTP target with a known URL. */
export interface HttpTargetOptions extends HttpCallOptions {
  /**
   * A secret with a JSON object of headers for every call. With the member `:signing-secrets`, calls are signed as in
   * Standard Webhooks. Only the message-processor may read the secret. Default: none.
   */
  readonly headersSecret?: secretsmanager.ISecret;
}

/** Options of a Lambda function as a target. */
export interface LambdaTargetOptions {
  /** The timeout of one call, 1 s to 900 s. Default: 30 s. */
  readonly timeout?: Duration;
  /** True for a function in tenant isolation mode. A message's `MessageGroupId` is the tenant id. Default: false. */
  readonly tenantIsolation?: boolean;
  /**
   * True for a durable function, given as a version or alias. All copies of an attempt are one execution. Default:
   * false.
   */
  readonly durable?: boolean;
}

/** Options of your own function. */
export interface OwnFunctionOptions {
  /** The event that is passed to your handler. Default: `HandlerEvent.RECORD`. */
  readonly handlerEvent?: HandlerEvent;
}

/** A target by its kind. */
export type GivenTarget =
  | ({ readonly kind: 'http'; readonly url: string } & HttpTargetOptions)
  | ({ readonly kind: 'httpFromSecret'; readonly secret: secretsmanager.ISecret } & HttpCallOptions)
  | ({ readonly kind: 'lambda'; readonly function: lambda.IFunction } & LambdaTargetOptions)
  | { readonly kind: 'handler'; readonly bundle: string }
  | ({ readonly kind: 'function'; readonly function: lambda.IFunction } & OwnFunctionOptions);
