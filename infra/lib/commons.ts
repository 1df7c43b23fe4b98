import { RemovalPolicy } from 'aws-cdk-lib';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import type { LogDetail, LogLevel } from './choices';
import type { CommonProps } from './props';

/** What every construct's resources have in common. */
export interface Commons {
  readonly architecture: lambda.Architecture;
  /** Where the user says that our functions are; `undefined`: in the package. */
  readonly bundles: string | undefined;
  readonly logRetention: RetentionDays;
  /** `undefined`: the functions' own default. */
  readonly logDetail: LogDetail | undefined;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly logEncryptionKey: kms.IKey | undefined;
  /** Of each function that only sends on. */
  readonly innerReservedConcurrency: number | undefined;
  readonly removalPolicy: RemovalPolicy;
}

/** Fills in the defaults. */
export function commonsOf(props: CommonProps): Commons {
  return {
    architecture: props.architecture ?? lambda.Architecture.ARM_64,
    bundles: props.bundles,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    logDetail: props.logDetail,
    logLevel: props.logLevel,
    tracing: props.tracing ?? true,
    logEncryptionKey: props.logEncryptionKey,
    innerReservedConcurrency: props.innerReservedConcurrency,
    removalPolicy:
      props.removalPolicy === RemovalPolicy.DESTROY
        ? RemovalPolicy.DESTROY
        : // Kept, except after a first deployment that fails: its empty queues would be in the way of the next try.
          RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  };
}
