export { type Backoff, type Jitter, type RetryPolicy } from './policy.ts';
export { RedeliverPropsError } from './plan.ts';
export type {
  ExistingSourceQueue,
  HandlerTarget,
  HttpTarget,
  LambdaTarget,
  RedeliverProps,
  Target,
  VpcPlacement,
} from './props.ts';
export { Redeliver } from './redeliver.ts';
