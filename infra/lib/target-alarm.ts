import { Annotations, CfnCondition, Fn, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { type Alarm, loopStopped } from './alarm';
import { own } from './metrics';
import type { Plan } from './plan';
import type { Loop } from './strategy/definition';
import { STRATEGIES } from './strategy/index';

/**
 * Whether the message-processor has found its target down: one alert an outage. Its own metric says so, wherever the target
 * is and whatever it is.
 */
export function targetDown({ strategy, hasCircuitBreaker }: Plan, { messageProcessor }: Loop): Alarm[] {
  if (!hasCircuitBreaker) {
    return [];
  }
  return [
    {
      name: 'target-down',
      description:
        'The target is down: it gets no calls, except a probe now and then. Look at it first; the log of the message-processor ' +
        `has its last error in circuit_opened. ${STRATEGIES[strategy].heldCosts}`,
      metric: own('CircuitOpen', messageProcessor, cloudwatch.Stats.MAXIMUM),
      threshold: 0,
      // If nothing new comes in, nobody says anything until the held messages are back: 900 s at most. What lies so far
      // apart is never more than three periods apart.
      over: 3,
    },
  ];
}

/**
 * Whether Lambda stops the loop at the target. An alarm sees metrics of its own account and region: for a function elsewhere
 * there is none, or it would watch whatever has the function's name here.
 */
export function targetLoop(scope: Construct, target: lambda.IFunction): Alarm[] {
  const { account, region } = Stack.of(scope);
  const compared = [
    { own: account, its: target.env.account },
    { own: region, its: target.env.region },
  ].map(({ own, its }) => ({ own, its, result: Token.compareStrings(own, its) }));
  if (compared.some(({ result }) => result === TokenComparison.DIFFERENT)) {
    Annotations.of(scope).addInfo(
      `target ${target.functionArn} is in another account or region, whose metrics no alarm of this stack can watch, so there is ` +
        'no alarm target-loop-stopped: watch RecursiveInvocationsDropped where the function is.',
    );
    return [];
  }
  // A stack without an env learns at the deployment where it is; a function whose ARN comes only then cannot be compared.
  const open = compared.filter(({ its, result }) => result === TokenComparison.ONE_UNRESOLVED && !Token.isUnresolved(its));
  if (open.length === 0) {
    return [loopStopped('target', target)];
  }
  const expression = Fn.conditionAnd(...open.map(({ own, its }) => Fn.conditionEquals(own, its)));
  return [{ ...loopStopped('target', target), condition: new CfnCondition(scope, 'TargetIsHere', { expression }) }];
}
