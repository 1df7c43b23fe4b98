import { FeatureFlags, type Stack } from 'aws-cdk-lib';
import type * as kms from 'aws-cdk-lib/aws-kms';
import { KMS_APPLY_IMPORTED_ALIAS_PERMISSIONS_TO_PRINCIPAL as GRANTS_ON_ALIASES } from 'aws-cdk-lib/cx-api';

import { elsewhereProblems } from './region';

/** Returns problems that would prevent the functions from sending, storing or reading messages with a key. */
export function keyProblems(prop: string, key: kms.IKey | undefined, stack: Stack): string[] {
  if (!key) {
    return [];
  }
  const elsewhere = elsewhereProblems(prop, 'a key', key, stack);
  return elsewhere.length === 0 && ignoresGrants(key)
    ? [
        `${prop} is an alias that was imported by its name, on which the CDK grants nothing, so the functions could not use the key; use kms.Key.fromKeyArn or ` +
          `kms.Key.fromLookup, or set the feature flag ${GRANTS_ON_ALIASES}.`,
      ]
    : elsewhere;
}

/** Returns true for `kms.Alias.fromAliasName`, except for AWS managed keys, which allow the entire account. */
function ignoresGrants(key: kms.IKey): boolean {
  const { aliasName } = key as Partial<kms.IAlias>;
  if (aliasName === undefined || /^alias\/aws\/(sqs|s3|sns)$/.test(aliasName) || FeatureFlags.of(key).isEnabled(GRANTS_ON_ALIASES)) {
    return false;
  }
  try {
    return (key as kms.IAlias).aliasTargetKey === undefined;
  } catch {
    return true; // The key of the alias is unknown.
  }
}
