import { App, CfnParameter, Stack, Validations } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';

import { Redeliver, type RedeliverProps, RetryPolicy, Strategy, Target } from '../lib/index';
import { type Json, type JsonObject, mergeTemplates, type Template } from './merge';
import { CONDITIONS, PARAMETERS, PREFIX, RULES } from './parameters';

/** A combination of the template's conditions. */
export interface Variant {
  readonly strategy: Strategy;
  readonly target: 'url' | 'url-with-headers' | 'function';
  readonly tellsTopic: boolean;
}

/** The functions that the template deploys. */
export interface Package {
  readonly architecture: lambda.Architecture;
  /** The construct's `bundles`. */
  readonly bundles?: string;
}

/**
 * A policy that needs every permission that any policy may need, since the actual policy is only known at deployment.
 * Unused permissions do no harm.
 */
const ANY_POLICY = { longDelays: true, maxRedeliveryPerSecond: 1 };

/** The template as a file. */
export function templateFile(from: Package): string {
  return asFile(redeliverTemplate(from));
}

/** A template as a file. */
export function asFile(template: JsonObject): string {
  // CloudFormation reads YAML 1.1 without aliases ("CloudFormation template format").
  const asRead = { version: '1.1', aliasDuplicateObjects: false } as const;
  const yaml = stringify(template, { ...asRead, lineWidth: 120 });
  return `# Generated from the construct; docs/template.md says how to deploy it.\n${yaml}`;
}

/** The template of all variants, whose differences depend on conditions. */
function redeliverTemplate(from: Package): JsonObject {
  const { Resources, Outputs } = mergeVariants((variant) => variantTemplate(from, variant));
  return { ...HEAD, Parameters: PARAMETERS, Rules: RULES, Conditions: CONDITIONS, Resources, Outputs };
}

/** The head of each template. */
export const HEAD: JsonObject = {
  AWSTemplateFormatVersion: '2010-09-09',
  Description: 'redeliver: delayed, jittered retries for SQS and Lambda',
  // W3002: the package command uploads the zips to a bucket and replaces their names by their places there.
  // W3005: the CDK also writes dependencies that a reference implies.
  Metadata: { 'cfn-lint': { config: { ignore_checks: ['W3002', 'W3005'] } } },
};

/** Merges the templates that `make` returns for all variants. */
export function mergeVariants(make: (variant: Variant) => Template): Template {
  const forTopic = (strategy: Strategy, target: Variant['target']): Template =>
    mergeTemplates(
      'TellsTopic',
      make({ strategy, target, tellsTopic: true }),
      make({ strategy, target, tellsTopic: false }),
    );
  const forUrl = (strategy: Strategy): Template =>
    mergeTemplates('HasHeaders', forTopic(strategy, 'url-with-headers'), forTopic(strategy, 'url'));
  const forTarget = (strategy: Strategy): Template =>
    mergeTemplates('CallsFunction', forTopic(strategy, 'function'), forUrl(strategy));
  return mergeTemplates('IsDirectResend', forTarget(Strategy.DIRECT_RESEND), forTarget(Strategy.DELAYED_RESEND));
}

/** The construct's template for one variant, with parameters. */
export function variantTemplate(from: Package, { strategy, target, tellsTopic }: Variant): Template {
  return constructTemplate(from, tellsTopic, (stack) => ({ target: targetOf(stack, target), strategy }));
}

/** The construct's template for these props, with parameters. */
export function constructTemplate(from: Package, tellsTopic: boolean, propsOf: (stack: Stack) => RedeliverProps): Template {
  const app = new App({ context: cdkContext() });
  const stack = new Stack(app, 'Redeliver');
  const reason = 'HeadersSecretArn is the ARN of a secret, not a secret.';
  Validations.of(stack).acknowledge({ id: 'CloudFormation-Validate::W2509', reason });
  const [prefix = '', ...stage] = PREFIX.split('-');
  const redeliver = new Redeliver(stack, 'Redeliver', {
    prefix,
    stage: stage.join('-'),
    ...propsOf(stack),
    policy: RetryPolicy.of(ANY_POLICY),
    architecture: from.architecture,
    ...(from.bundles && { bundles: from.bundles }),
    ...(tellsTopic && { alarmTopic: sns.Topic.fromTopicArn(stack, 'AlarmTopic', valueOf(stack, 'AlarmTopicArn')) }),
  });
  redeliver.addOutputs();
  const made: Record<keyof Template, Record<string, JsonObject>> = app.synth().getStackByName('Redeliver').template;
  const resources = Object.entries(made.Resources).map(([id, resource]) => [
    id,
    withPrefixParameter(withParameters(resource, from.architecture)),
  ]);
  return { Resources: Object.fromEntries(resources), Outputs: made.Outputs };
}

function targetOf(stack: Stack, target: Variant['target']): Target {
  switch (target) {
    case 'function': {
      const arn = valueOf(stack, 'TargetFunctionArn');
      const modes = { tenantIsolation: true, durable: true };
      return Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', arn), modes);
    }
    case 'url':
      return Target.http(valueOf(stack, 'TargetUrl'));
    case 'url-with-headers': {
      const arn = valueOf(stack, 'HeadersSecretArn');
      const headersSecret = secretsmanager.Secret.fromSecretCompleteArn(stack, 'Headers', arn);
      return Target.http(valueOf(stack, 'TargetUrl'), { headersSecret });
    }
  }
}

/** Replaces literals that the construct needs by parameters. */
function withParameters(resource: JsonObject, architecture: lambda.Architecture): JsonObject {
  const properties = resource['Properties'] as JsonObject;
  switch (resource['Type']) {
    case 'AWS::Lambda::Function':
      return { ...resource, Properties: { ...properties, ...functionParameters(properties, architecture) } };
    case 'AWS::CloudWatch::Alarm':
      return { ...resource, Properties: { ...properties, ...alarmParameters(properties) } };
    case 'AWS::Lambda::EventSourceMapping':
      return { ...resource, Properties: { ...properties, ...mappingParameters(properties) } };
    default:
      return resource;
  }
}

/** The template parameter of each environment variable. */
const OF_PARAMETERS = { RETRY_POLICY: 'Policy', TARGET_TENANT_ISOLATION: 'TenantIsolation', TARGET_DURABLE: 'DurableFunction' };

function functionParameters(properties: JsonObject, architecture: lambda.Architecture): JsonObject {
  const { Variables } = properties['Environment'] as { Variables: JsonObject };
  const given = Object.entries(OF_PARAMETERS).filter(([name]) => name in Variables);
  const parameters = Object.fromEntries(given.map(([name, parameter]) => [name, { Ref: parameter }]));
  // The handler is the function's own name.
  return { Code: zipOf(String(properties['Handler']), architecture), Environment: { Variables: { ...Variables, ...parameters } } };
}

function mappingParameters({ EventSourceArn, ScalingConfig }: JsonObject): JsonObject {
  const isSource = JSON.stringify(EventSourceArn).includes('SourceQueue');
  return { ScalingConfig: isSource ? (ScalingConfig ?? null) : { MaximumConcurrency: { Ref: 'InnerConcurrency' } } };
}

/** The name of the zip next to the template, from `cargo xtask dist functions`. */
export function zipOf(name: string, architecture: lambda.Architecture): string {
  return `redeliver-${name}-${architecture.name.replace('_', '-')}.zip`;
}

/** Replaces literal values in an alarm's threshold and description. */
function alarmParameters({ MetricName, AlarmName, AlarmDescription }: JsonObject): JsonObject {
  // The annotator's threshold follows from another queue's retention.
  if (MetricName === 'MessageAgeSeconds' && !String(AlarmName).includes('annotator')) {
    return {
      Threshold: { Ref: 'MessageAgeAlarmSeconds' },
      AlarmDescription:
        'A message is older than MessageAgeAlarmSeconds. Find out what holds it up, before SQS deletes it.',
    };
  }
  if (String(AlarmName).endsWith('-intermediate-dlq-backlog')) {
    // CloudFormation cannot multiply by 100, but it can append two zeros.
    return { Threshold: { 'Fn::Sub': '${InnerConcurrency}00' } };
  }
  const rate = `${ANY_POLICY.maxRedeliveryPerSecond} a second`;
  return { AlarmDescription: String(AlarmDescription).replace(rate, 'max_redelivery_per_second') };
}

/** Replaces the placeholder by the parameter `Prefix`. */
function withPrefixParameter(value: Json): Json {
  if (typeof value === 'string') {
    return value.includes(PREFIX) ? { 'Fn::Sub': inText(value.replaceAll('${', '${!')) } : value;
  }
  if (Array.isArray(value)) {
    return value.map(withPrefixParameter);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const members = Object.entries(value).map(([name, member]): [string, Json] =>
    name === 'Fn::Sub' && typeof member === 'string' ? [name, inText(member)] : [name, withPrefixParameter(member)],
  );
  return Object.fromEntries(members);
}

function inText(text: string): string {
  return text.replaceAll(PREFIX, '${Prefix}');
}

function valueOf(stack: Stack, parameter: keyof typeof PARAMETERS): string {
  return new CfnParameter(stack, parameter).valueAsString;
}

function cdkContext(): Record<string, unknown> {
  const cdkJson: { context: Record<string, unknown> } = JSON.parse(
    readFileSync(join(__dirname, '../cdk.json'), 'utf8'),
  );
  return cdkJson.context;
}
