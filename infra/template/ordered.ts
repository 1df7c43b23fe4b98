import { Strategy } from '../lib/index';
import { type JsonObject, type Template } from './merge';
import { CONDITIONS, OPTION_NAMES, type OptionName, PARAMETERS as SHARED, RULES } from './parameters';
import { asFile, HEAD, mergeTargets, type Package, type Variant, variantTemplate, withConditions } from './template';

const { Strategy: _isOrdered, ...COMMON_PARAMETERS } = SHARED;

/** The parameters of the template for the strategy `ordered`. */
export const PARAMETERS = {
  ...COMMON_PARAMETERS,
  MessageAgeAlarmSeconds: {
    ...SHARED.MessageAgeAlarmSeconds,
    Default: 967_680,
    Description: 'The message age that raises an alarm. Default: 80 % of 14 days.',
  },
  GroupWaitAlarmSeconds: {
    Type: 'Number',
    Default: 90_000,
    MinValue: 60,
    Description: 'The wait on the source queue that raises an alarm. Default: an hour more than a day of retries; raise it if retries take longer.',
  },
} satisfies JsonObject;

/** Returns the template file for the strategy `ordered`, which has different queues. */
export function orderedTemplateFile(from: Package): string {
  const { Conditions, ...rest } = mergeTargets((target) => withConditions(orderedTemplate(from, target, OPTION_NAMES)));
  return asFile({ ...HEAD, Parameters: PARAMETERS, Rules: RULES, Conditions: { ...CONDITIONS, ...Conditions }, ...rest });
}

/** Returns the construct's template for this target and these options, with parameters. */
export function orderedTemplate(from: Package, target: Variant['target'], options: readonly OptionName[]): Template {
  const made = variantTemplate(from, { strategy: Strategy.ORDERED, target }, options);
  const resources = Object.entries(made.Resources).map(([id, resource]) => [id, withParameters(resource as JsonObject)]);
  return { ...made, Resources: Object.fromEntries(resources) };
}

/** Replaces the time that the alarm on waiting groups derives from the policy. */
function withParameters(resource: JsonObject): JsonObject {
  const properties = resource['Properties'] as JsonObject;
  if (!JSON.stringify(properties['AlarmName'])?.includes('-source-queue-waits-too-long')) {
    return resource;
  }
  const AlarmDescription =
    'A message has waited for longer than GroupWaitAlarmSeconds. This age includes its own retries and those of the messages before it in its ' +
    'group. Check if the target is down, or the message-processor does not run, fails or is too slow; if not, several messages of one group ' +
    'fail in turn.';
  return { ...resource, Properties: { ...properties, Threshold: { Ref: 'GroupWaitAlarmSeconds' }, AlarmDescription } };
}
