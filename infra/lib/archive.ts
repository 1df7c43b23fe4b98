import { Stack, Token, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as s3 from 'aws-cdk-lib/aws-s3';

import { pointerProblems } from './messages';
import type { CommonProps } from './props';
import { keyProblems } from './queue-key';
import { elsewhereProblems } from './region';

/** The archive of final records. */
export interface Archive {
  readonly bucket: s3.IBucket;
  /** Empty, or with a slash at the end. */
  readonly prefix: string;
  readonly omit: readonly string[];
}

type ArchiveProps = Pick<CommonProps, 'archive' | 'archivePrefix' | 'archiveOmit'>;

/** The limits are the same as in the function. */
const PREFIX_CHARACTERS_MAX = 256;
const POINTERS_MAX = 50;
/** The characters that are safe according to "Naming Amazon S3 objects", and `=` for partitions. */
const PREFIX = /^(?!\/)[A-Za-z0-9!_.*'()/=-]*$/;

export function archiveOf({ archive: bucket, archivePrefix: prefix = '', archiveOmit: omit = [] }: ArchiveProps): Archive | undefined {
  return bucket && { bucket, prefix: withSlash(prefix), omit };
}

/**
 * Adds a slash to a prefix without one, as the function does. The value of a token is not known here, so a token must
 * already end with a slash.
 */
function withSlash(prefix: string): string {
  return prefix === '' || prefix.endsWith('/') || Token.isUnresolved(prefix) ? prefix : `${prefix}/`;
}

/** Returns problems with these props, one sentence each. */
export function archiveProblems(props: ArchiveProps, stack: Stack): string[] {
  const { archive, archivePrefix, archiveOmit = [] } = props;
  const unused = (['archivePrefix', 'archiveOmit'] as const).filter((name) => archive === undefined && props[name] !== undefined);
  return [
    ...unused.map((name) => `${name} only applies to an archive; set archive to its bucket, or remove ${name}.`),
    ...(archive ? bucketProblems(archive, stack) : []),
    ...(archivePrefix === undefined || isPrefix(archivePrefix)
      ? []
      : [
          `archivePrefix is "${archivePrefix}"; use at most ${PREFIX_CHARACTERS_MAX} of A-Z a-z 0-9 ! _ . * ' ( ) / = and -, with a / at the end, but not at the start.`,
        ]),
    ...(archiveOmit.length > POINTERS_MAX
      ? [`archiveOmit has ${archiveOmit.length} entries; give at most ${POINTERS_MAX}: the pointer to an object omits all its members.`]
      : []),
    ...archiveOmit.flatMap((pointer, index) => pointerProblems(pointer, `archiveOmit[${index}]`)),
  ];
}

/**
 * Returns problems with the bucket. A bucket and its key are in the same region, so one sentence about the region is
 * enough.
 */
function bucketProblems(bucket: s3.IBucket, stack: Stack): string[] {
  const elsewhere = elsewhereProblems('archive', 'a bucket', bucket, stack);
  return elsewhere.length > 0 ? elsewhere : keyProblems("archive's key", bucket.encryptionKey, stack);
}

function isPrefix(prefix: string): boolean {
  return Token.isUnresolved(prefix) || (withSlash(prefix).length <= PREFIX_CHARACTERS_MAX && PREFIX.test(prefix));
}

/** Returns the annotator's environment variables. */
export function archiveEnvironment({ bucket, prefix, omit }: Archive): Record<string, string> {
  return {
    ARCHIVE_BUCKET: bucket.bucketName,
    ARCHIVE_BUCKET_OWNER: bucket.env.account,
    ...(prefix !== '' && { ARCHIVE_PREFIX: prefix }),
    ...(omit.length > 0 && { ARCHIVE_OMIT: omit.join(',') }),
  };
}

/**
 * Allows the annotator to create dead letters in the archive, but not to read, replace or delete any, and only while
 * the bucket belongs to the expected account: anyone can register the name of a deleted bucket.
 */
export function allowArchive(annotator: lambda.Function, { bucket, prefix }: Archive): void {
  // In a policy, `*` is a wildcard and `${*}` is a literal asterisk.
  const objects = bucket.arnForObjects(`${prefix.replace(/\*/g, '${*}')}dead-letters/*`);
  annotator.addToRolePolicy(
    new iam.PolicyStatement({
      actions: ['s3:PutObject'],
      resources: [objects],
      // The header must be present ("Enforce conditional writes on Amazon S3 buckets").
      conditions: { Null: { 's3:if-none-match': 'false' }, StringEquals: { 'aws:ResourceAccount': bucket.env.account } },
    }),
  );
  acknowledgeObjectKeyFinding(annotator, objects);
  bucket.encryptionKey?.grant(annotator, 'kms:GenerateDataKey');
}

/** Acknowledges the AwsSolutions finding about object keys, which are only known when a message dies. */
function acknowledgeObjectKeyFinding(annotator: lambda.Function, objects: string): void {
  const arn: string | { 'Fn::Join': [string, (string | object)[]] } = Stack.of(annotator).resolve(objects);
  const parts = typeof arn === 'string' ? [arn] : arn['Fn::Join'][1];
  const named = parts.map((part) => (typeof part === 'string' ? part : `<${Object.values(part).flat().join('.')}>`)).join('');
  Validations.of(annotator.role as iam.Role).acknowledge({
    id: `AwsSolutions-IAM5[Resource::${named}]`,
    reason: "An object's key has the cause and the id of its message, which are only known when the message dies.",
  });
}
