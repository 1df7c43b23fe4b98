import { Annotations, CfnCondition, Fn, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import type { Alarm } from './alarm';
import { lambdaMetric, redeliverMetric } from './metrics';
import type { Plan } from './plan';
import type { Loop } from './strategy/definition';
import { STRATEGIES } from './strategy/index';

/**
 * Returns the alarm that fires when the message-processor finds its target down, once per outage. It uses the
 * function's own metric, so it works for any target anywhere.
 */
export function targetDownAlarms({ strategy, hasCircuitBreaker }: Plan, { messageProcessor }: Loop): Alarm[] {
  if (!hasCircuitBreaker) {
    return [];
  }
  return [
    {
      name: 'target-down',
      severity: 'page',
      isEssential: true,
      description:
        'The target is down: it gets no calls, except an occasional probe. Check the target first; the log of the message-processor ' +
        `has its last error in circuit_opened. ${STRATEGIES[strategy].holdAdvice}`,
      metric: redeliverMetric('CircuitOpen', messageProcessor, cloudwatch.Stats.MAXIMUM),
      threshold: 0,
      // Without new messages, there is no datapoint until held messages are received again, after at most 900 s: up to
      // three periods.
      recoveryPeriods: 3,
    },
  ];
}

/**
 * Returns the alarm that fires when Lambda stops the loop at the target. An alarm only sees metrics of its own account
 * and region, so a function elsewhere gets no alarm: it would watch a function with the same name in this account and
 * region. A function with `recursiveLoop: ALLOW` gets none either, since Lambda emits no such metric for it.
 */
export function targetLoopAlarms(scope: Construct, target: lambda.IFunction): Alarm[] {
  const resource = target.node.defaultChild;
  if (resource instanceof lambda.CfnFunction && resource.recursiveLoop === lambda.RecursiveLoop.ALLOW) {
    return [];
  }
  const { account, region } = Stack.of(scope);
  const compared = [
    { own: account, its: target.env.account },
    { own: region, its: target.env.region },
  ].map(({ own, its }) => ({ own, its, result: Token.compareStrings(own, its) }));
  if (compared.some(({ result }) => result === TokenComparison.DIFFERENT)) {
    Annotations.of(scope).addInfo(
      `target ${target.functionArn} is in another account or region, and an alarm of this stack cannot watch metrics there, so there is ` +
        'no alarm target-loop-stopped: watch RecursiveInvocationsDropped where the function is.',
    );
    return [];
  }
  // The account and region of a stack without an env are only known at deployment, so a condition compares them. ARNs
  // with tokens cannot be compared.
  const open = compared.filter(({ its, result }) => result === TokenComparison.ONE_UNRESOLVED && !Token.isUnresolved(its));
  if (open.length === 0) {
    return [loopStoppedAlarm(target)];
  }
  const expression = Fn.conditionAnd(...open.map(({ own, its }) => Fn.conditionEquals(own, its)));
  return [{ ...loopStoppedAlarm(target), condition: new CfnCondition(scope, 'TargetIsHere', { expression }) }];
}

function loopStoppedAlarm(target: lambda.IFunction): Alarm {
  return {
    name: 'target-loop-stopped',
    severity: 'ticket',
    description: "Lambda mistook the retries for an infinite loop and dropped calls to the target: set the target's recursiveLoop to ALLOW.",
    metric: lambdaMetric('RecursiveInvocationsDropped', target),
    threshold: 0,
  };
}
