import { Envelope } from './choices';
import type { GivenSourceQueue, SourceQueue } from './existing-queue';
import type { PolicyDocument } from './policy';
import { documentOf } from './policy-document';
import type { AsyncRetryProps, RedeliverProps } from './props';
import { refuse } from './props-error';
import { asyncRetryShapeProblems, redeliverShapeProblems } from './props-shape';
import type { RetryPolicy } from './retry-policy';
import type { GivenTarget } from './target';

/**
 * The props of `Redeliver` as plain values: targets and queues by kind, and the policy as the document that the
 * functions read.
 */
export interface NormalizedProps extends Omit<RedeliverProps, 'target' | 'policy' | 'existingSourceQueue'> {
  readonly target: GivenTarget;
  readonly policy?: PolicyDocument;
  readonly existingSourceQueue?: GivenSourceQueue;
  /** True if the policy was given as a document, whose member names are used in errors. */
  readonly isDocument: boolean;
}

/** The props of `AsyncRetry` as plain values. */
export interface NormalizedAsyncProps extends Omit<AsyncRetryProps, 'policy'> {
  readonly policy?: PolicyDocument;
  readonly isDocument: boolean;
}

/**
 * @param before problems found earlier, reported with the rest.
 * @throws RedeliverPropsError if a prop has the wrong type.
 */
export function normalizeProps(props: RedeliverProps, before: readonly string[] = []): NormalizedProps {
  const shape = redeliverShapeProblems(props);
  if (shape.length > 0) {
    refuse([...before, ...shape]);
  }
  const { target, policy, existingSourceQueue, envelope = defaultEnvelope(target._given, existingSourceQueue), ...rest } = props;
  return {
    ...rest,
    ...(envelope !== undefined && { envelope }),
    target: target._given,
    ...policyOf(policy),
    ...(existingSourceQueue && { existingSourceQueue: existingSourceQueue._given }),
  };
}

/**
 * Returns the default of `envelope`. Messages that existed before redeliver need no envelope: those in an existing
 * queue, and those for a user's own function. `undefined` is the functions' default, which requires an envelope.
 */
function defaultEnvelope({ kind }: GivenTarget, existingSourceQueue: SourceQueue | undefined): Envelope | undefined {
  return kind === 'function' || existingSourceQueue ? Envelope.OPTIONAL : undefined;
}

/** @throws RedeliverPropsError if a prop has the wrong type. */
export function normalizeAsyncProps(props: AsyncRetryProps): NormalizedAsyncProps {
  refuse(asyncRetryShapeProblems(props));
  const { policy, ...rest } = props;
  return { ...rest, ...policyOf(policy) };
}

function policyOf(policy: RetryPolicy | undefined): Pick<NormalizedProps, 'policy' | 'isDocument'> {
  return policy ? { policy: documentOf(policy), isDocument: 'document' in policy._given } : { isDocument: false };
}
