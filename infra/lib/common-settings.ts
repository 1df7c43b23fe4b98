import { RemovalPolicy, type Stack } from 'aws-cdk-lib';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import { type Archive, archiveOf } from './archive';
import type { LogDetail, LogLevel } from './choices';
import type { GivenNotify } from './notify';
import type { CommonProps, VpcPlacement } from './props';
import { mayTrace } from './region';

/** Settings that the resources of every construct share. */
export interface CommonSettings {
  /** For the queues that only our functions read, and for a new source queue. */
  readonly encryptionKey: kms.IKey | undefined;
  readonly architecture: lambda.Architecture;
  /** The directory of our functions; `undefined`: the package's own. */
  readonly bundles: string | undefined;
  readonly logRetention: RetentionDays;
  /** `undefined`: the functions' own default. */
  readonly logDetail: LogDetail | undefined;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly logEncryptionKey: kms.IKey | undefined;
  readonly environmentEncryptionKey: kms.IKey | undefined;
  /** For each of our functions. */
  readonly vpc: VpcPlacement | undefined;
  /** Concurrent invocations of each function except the message-processor. */
  readonly innerConcurrency: number;
  /** For each function except the message-processor. */
  readonly innerReservedConcurrency: number | undefined;
  /** The annotator's. */
  readonly archive: Archive | undefined;
  /** The destination of the annotator's notices. */
  readonly notify: GivenNotify | undefined;
  readonly removalPolicy: RemovalPolicy;
}

/** Fills in the defaults. */
export function commonSettingsOf(props: CommonProps, stack: Stack): CommonSettings {
  return {
    encryptionKey: props.encryptionKey,
    architecture: props.architecture ?? lambda.Architecture.ARM_64,
    bundles: props.bundles,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    logDetail: props.logDetail,
    logLevel: props.logLevel,
    tracing: props.tracing ?? mayTrace(stack),
    logEncryptionKey: props.logEncryptionKey,
    environmentEncryptionKey: props.environmentEncryptionKey,
    vpc: props.vpc,
    innerConcurrency: props.innerConcurrency ?? 10,
    innerReservedConcurrency: props.innerReservedConcurrency,
    archive: archiveOf(props),
    notify: props.notify?._given,
    removalPolicy:
      props.removalPolicy === RemovalPolicy.DESTROY
        ? RemovalPolicy.DESTROY
        : // Except after a failed first deployment: its empty queues would block the next one.
          RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  };
}
