export { AsyncRetry } from './async-retry';
export type { AdditiveJitter, Backoff, CircuitBreaker, Immediate, Jitter, Preset, RetryPolicy } from './policy';
export { RedeliverPropsError } from './props-error';
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
} from './props';
export { Redeliver } from './redeliver';
