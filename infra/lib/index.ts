export { AsyncRetry } from './async-retry.ts';
export type { AdditiveJitter, Backoff, CircuitBreaker, Immediate, Jitter, Preset, RetryPolicy } from './policy.ts';
export { RedeliverPropsError } from './props-error.ts';
export type {
  AsyncRetryProps,
  CommonProps,
  ExistingSourceQueue,
  FunctionTarget,
  HandlerTarget,
  HttpTarget,
  LambdaTarget,
  RedeliverProps,
  SourceQueueElsewhere,
  Strategy,
  Target,
  VpcPlacement,
} from './props.ts';
export { Redeliver } from './redeliver.ts';
