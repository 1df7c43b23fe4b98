// The queues for `redeliver work`, as a template: examples/queues.yaml.

import { App, CfnParameter, Duration, Stack } from 'aws-cdk-lib';
import * as sns from 'aws-cdk-lib/aws-sns';

import { addAlarms, deadLetterAlarms } from '../lib/alarm';
import { Target } from '../lib/index';
import { normalizeProps } from '../lib/normalized-props';
import { addQueueUrls } from '../lib/outputs';
import { planOf } from '../lib/planning';
import { denyOtherRoles } from '../lib/queues';
import { createResendQueues } from '../lib/strategy/resend';
import { waitingAlarms } from '../lib/strategy/resend-watch';
import type { JsonObject, Template } from './merge';
import { conditionsOf, PARAMETERS as SHARED, PREFIX } from './parameters';
import { asFile, cdkContext, HEAD, valueOf, withConditions, withPrefixParameter } from './template';

/** The template's parameters. */
export const PARAMETERS = {
  Prefix: SHARED.Prefix,
  WorkerRoleArns: {
    Type: 'CommaDelimitedList',
    AllowedPattern: 'arn:[^:]+:iam::\\d{12}:role/[^*?\\s]+',
    Description: 'The ARNs of the roles that the containers run with, comma-separated: only they can send to the inner queues.',
  },
  AlarmTopicArn: SHARED.AlarmTopicArn,
} satisfies JsonObject;

/** The time limit of a batch: the default of `redeliver work --invocation`. */
const INVOCATION = Duration.seconds(30);

/** Returns the template as a file. */
export function queuesTemplateFile(): string {
  const head = { ...HEAD, Description: 'redeliver: the queues of `redeliver work`', Parameters: PARAMETERS };
  return asFile({ ...head, ...withConditions(queuesTemplate()), Conditions: conditionsOf(['TellsTopic']) }, 'docs/containers.md');
}

/** Returns the queues of a stack with the strategy `delayed-resend`, without the functions. */
function queuesTemplate(): Template {
  const app = new App({ context: cdkContext() });
  const stack = new Stack(app, 'Queues');
  const [prefix = '', ...stage] = PREFIX.split('-');
  const target = Target.http('https://set.by.the.containers/', { timeout: Duration.seconds(20) });
  // `redeliver work` has no batching window.
  const maxBatchingWindow = Duration.seconds(0);
  const props = normalizeProps({ target, timeout: INVOCATION, maxBatchingWindow, prefix, stage: stage.join('-') });
  const plan = planOf(props, stack);
  const queues = createResendQueues(stack, props, plan);
  const workers = new CfnParameter(stack, 'WorkerRoleArns', { type: 'CommaDelimitedList' }).valueAsList;
  [queues.intermediateDlq, queues.annotation, queues.finalDlq].forEach((queue) => denyOtherRoles(queue, workers));
  const ticketTopic = sns.Topic.fromTopicArn(stack, 'AlarmTopic', valueOf(stack, 'AlarmTopicArn'));
  addAlarms(stack, plan.names.prefix, { ticketTopic }, [...deadLetterAlarms(queues), ...waitingAlarms(queues)]);
  addQueueUrls(stack, { ...queues, source: { queue: queues.source, description: 'Send messages here.' } });
  const { Resources, Outputs } = app.synth().getStackByName('Queues').template;
  return { Conditions: {}, Resources: withPrefixParameter(Resources) as JsonObject, Outputs };
}
