import { Annotations, Token } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

import type { GivenTarget } from './target';

/**
 * Names of query parameters that usually contain a secret. Case, hyphens and underscores are ignored. The functions
 * have the same list (`crates/aws/src/targets/url.rs`).
 */
const SECRET_PARAMETERS: readonly string[] = [
  'access_key', 'access_token', 'api_key', 'api_token', 'auth', 'auth_token', 'authorization', 'client_secret', 'code', 'jwt', 'key',
  'passwd', 'password', 'pwd', 'secret', 'sig', 'signature', 'subscription_key', 'token', 'x_amz_signature',
];

/** Returns the known name of the first query parameter that looks like a secret. */
export function secretParameter(url: string): string | undefined {
  const plain = (name: string): string => name.replace(/[-_]/g, '').toLowerCase();
  const given = [...new URL(url).searchParams].filter(([, value]) => value !== '').map(([name]) => plain(name));
  return given.flatMap((name) => SECRET_PARAMETERS.filter((known) => plain(known) === name))[0];
}

/** Warns about a secret in the target's URL, which the template would expose. */
export function warnOfSecretInUrl(scope: Construct, target: GivenTarget): void {
  const parameter = target.kind !== 'http' || Token.isUnresolved(target.url) ? undefined : secretParameter(target.url);
  if (parameter !== undefined) {
    Annotations.of(scope).addWarningV2(
      '@redeliver/cdk:secretInTargetUrl',
      `the query of target.url has ${parameter}, which looks like a secret, and the template shows it: put the URL into a secret and use ` +
        'Target.httpFromSecret (the app: headersSecretArn without target), or acknowledge this.',
    );
  }
}
