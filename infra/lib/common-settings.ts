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
  /** The key for the queues that only our functions read, and for a new source queue. */
  readonly encryptionKey: kms.IKey | undefined;
  readonly architecture: lambda.Architecture;
  /** The directory of our functions; `undefined` for the package's own. */
  readonly bundles: string | undefined;
  readonly logRetention: RetentionDays;
  /** `undefined` for the functions' own default. */
  readonly logDetail: LogDetail | undefined;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly logEncryptionKey: kms.IKey | undefined;
  readonly environmentEncryptionKey: kms.IKey | undefined;
  /** The VPC of each of our functions. */
  readonly vpc: VpcPlacement | undefined;
  /** The maximum number of concurrent invocations of each function except the message-processor. */
  readonly innerConcurrency: number;
  /** The reserved concurrency of each function except the message-processor. */
  readonly innerReservedConcurrency: number | undefined;
  /** The annotator's archive. */
  readonly archive: Archive | undefined;
  /** The destination of the annotator's notices. */
  readonly notify: GivenNotify | undefined;
  readonly removalPolicy: RemovalPolicy;
}

/** Returns the settings with the defaults filled in. */
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
        : // Deleted only after a failed first deployment, whose empty queues would block the next one.
          RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  };
}
