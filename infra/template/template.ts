import { Annotations, App, Aws, CfnCondition, CfnParameter, Fn, Stack, Token, Validations } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';

import { Envelope, Notify, Producer, Redeliver, type RedeliverProps, RetryPolicy, Strategy, Target, type VpcPlacement } from '../lib/index';
import { ONLY_NOTICES } from '../lib/notify';
import { ifElse, type Json, type JsonObject, mergeTemplates, NO_VALUE, type Template } from './merge';
import { CONDITIONS, parameterEquals, OPTION_NAMES, type Option, type OptionName, OPTIONS, PARAMETERS, PREFIX, RULES } from './parameters';

/** A combination of the choices that change resources. All other choices are options. */
export interface Variant {
  readonly strategy: Strategy;
  readonly target: 'url' | 'function';
}

/** The functions that the template deploys. */
export interface Package {
  readonly architecture: lambda.Architecture;
  /** The construct's `bundles`. */
  readonly bundles?: string;
}

/**
 * A policy that requires every permission that any policy might require, since the actual policy is only known at
 * deployment. Unused permissions do no harm.
 */
const ANY_POLICY = { longDelays: true };

/** Returns the template as a file. */
export function templateFile(from: Package): string {
  return asFile(redeliverTemplate(from));
}

/** Returns a template as a file. `page` explains how to deploy it. */
export function asFile(template: JsonObject, page = 'docs/template.md'): string {
  // CloudFormation reads YAML 1.1 without aliases ("CloudFormation template format").
  const asRead = { version: '1.1', aliasDuplicateObjects: false } as const;
  const yaml = stringify(template, { ...asRead, lineWidth: 120 });
  return `# Generated from the construct; ${page} says how to deploy it.\n${yaml}`;
}

/** Returns the template of all variants, with all options under conditions. */
function redeliverTemplate(from: Package): JsonObject {
  const forTarget = (strategy: Strategy): Template => mergeTargets((target) => withConditions(variantTemplate(from, { strategy, target }, OPTION_NAMES)));
  const { Conditions, ...rest } = mergeTemplates('IsDirectResend', forTarget(Strategy.DIRECT_RESEND), forTarget(Strategy.DELAYED_RESEND));
  const IsDirectResend = parameterEquals('Strategy', Strategy.DIRECT_RESEND);
  return { ...HEAD, Parameters: PARAMETERS, Rules: RULES, Conditions: { IsDirectResend, ...CONDITIONS, ...Conditions }, ...rest };
}

/** The head of each template. */
export const HEAD: JsonObject = {
  AWSTemplateFormatVersion: '2010-09-09',
  Description: 'redeliver: delayed, jittered retries for SQS and Lambda',
  // W3002: the package command uploads the zips to a bucket and replaces their names with their locations. W3005: the
  // CDK also writes dependencies that are implied by references. W1033: an empty list of security groups is never
  // split, since the split is conditional.
  Metadata: { 'cfn-lint': { config: { ignore_checks: ['W3002', 'W3005', 'W1033'] } } },
};

/** Merges the templates that `make` returns for the two kinds of target. */
export function mergeTargets(make: (target: Variant['target']) => Template): Template {
  return mergeTemplates('CallsFunction', make('function'), make('url'));
}

/** Returns the construct's template for one variant and these options, with parameters. */
export function variantTemplate(from: Package, { strategy, target }: Variant, options: readonly OptionName[]): Template {
  return constructTemplate(from, options, (stack) => ({
    target: targetOf(stack, target, options.includes('HasHeaders')),
    strategy,
    // With strategy `ordered`, no policy needs additional permissions.
    ...(strategy === Strategy.ORDERED && { policy: RetryPolicy.of({}) }),
  }));
}

/** Returns the construct's template for these props and options, with parameters. */
export function constructTemplate(from: Package, options: readonly OptionName[], propsOf: (stack: Stack) => RedeliverProps): Template {
  const has = (option: OptionName): boolean => options.includes(option);
  const app = new App({ context: cdkContext() });
  const stack = new Stack(app, 'Redeliver');
  const reason = 'HeadersSecretArn is the ARN of a secret, not a secret.';
  Validations.of(stack).acknowledge({ id: 'CloudFormation-Validate::W2509', reason });
  // AlarmTopicArn determines whether alarms notify a topic.
  Annotations.of(stack).acknowledgeWarning('@redeliver/cdk:alarmsNotifyNobody');
  // docs/template.md describes the statements that the key's policy needs.
  Annotations.of(stack).acknowledgeWarning('@redeliver/cdk:keyPolicyNotChanged');
  const [prefix = '', ...stage] = PREFIX.split('-');
  const redeliver = new Redeliver(stack, 'Redeliver', {
    prefix,
    stage: stage.join('-'),
    policy: RetryPolicy.of(ANY_POLICY),
    ...propsOf(stack),
    envelope: Envelope.OPTIONAL,
    messageIdPointer: '/id',
    tracing: has('IsTraced'),
    architecture: from.architecture,
    ...(from.bundles && { bundles: from.bundles }),
    ...(has('IsInVpc') && { vpc: vpcOf(stack) }),
    ...(has('HasKey') && { encryptionKey: keyOf(stack, 'KmsKeyArn') }),
    ...(has('HasProducers') && { producers: [Producer.principal(Token.asString(splitList(valueOf(stack, 'ProducerPrincipals'))))] }),
    ...(has('TellsTopic') && { ticketTopic: sns.Topic.fromTopicArn(stack, 'AlarmTopic', valueOf(stack, 'AlarmTopicArn')) }),
    ...(has('HasArchive') && {
      archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', {
        bucketName: valueOf(stack, 'ArchiveBucket'),
        account: archiveOwnerAccount(stack),
        ...(has('HasArchiveKey') && { encryptionKey: keyOf(stack, 'ArchiveKeyArn') }),
      }),
      archivePrefix: valueOf(stack, 'ArchivePrefix'),
      archiveOmit: [valueOf(stack, 'ArchiveOmit')],
    }),
    // It may also be an event bus: see policyParameters.
    ...(has('HasNotices') && {
      notify: Notify.topic(
        sns.Topic.fromTopicAttributes(stack, 'Notices', {
          topicArn: valueOf(stack, 'NotifyArn'),
          ...(has('HasNotifyKey') && { keyArn: valueOf(stack, 'NotifyKeyArn') }),
        }),
      ),
    }),
    ...(has('HasLogKey') && { logEncryptionKey: keyOf(stack, 'LogKeyArn') }),
    ...(has('HasEnvironmentKey') && { environmentEncryptionKey: keyOf(stack, 'EnvironmentKeyArn') }),
  });
  if (has('HasBoundary')) {
    const boundary = iam.ManagedPolicy.fromManagedPolicyArn(stack, 'Boundary', valueOf(stack, 'PermissionsBoundaryArn'));
    iam.PermissionsBoundary.of(stack).apply(boundary);
  }
  redeliver.addOutputs();
  const { Conditions, Resources, Outputs }: Record<keyof Template, Record<string, JsonObject>> = app.synth().getStackByName('Redeliver').template;
  const resources = Object.entries(Resources).map(([id, resource]) => [
    id,
    withPrefixParameter(withParameters(resource, from.architecture)),
  ]);
  return { Conditions, Resources: Object.fromEntries(resources), Outputs };
}

function targetOf(stack: Stack, target: Variant['target'], hasHeaders: boolean): Target {
  if (target === 'function') {
    const arn = valueOf(stack, 'TargetFunctionArn');
    const modes = { tenantIsolation: true, durable: true };
    return Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', arn), modes);
  }
  const url = valueOf(stack, 'TargetUrl');
  const errorExcerpt = ['/type'];
  return hasHeaders
    ? Target.http(url, { errorExcerpt, headersSecret: secretsmanager.Secret.fromSecretCompleteArn(stack, 'Headers', valueOf(stack, 'HeadersSecretArn')) })
    : Target.http(url, { errorExcerpt });
}

function keyOf(stack: Stack, parameter: keyof typeof PARAMETERS): kms.IKey {
  return kms.Key.fromKeyArn(stack, `${parameter}Key`, valueOf(stack, parameter));
}

/** Returns the account in `ArchiveBucketOwner`, or the stack's account. */
function archiveOwnerAccount(stack: Stack): string {
  const owner = valueOf(stack, 'ArchiveBucketOwner');
  const isGiven = new CfnCondition(stack, 'HasArchiveBucketOwner', { expression: Fn.conditionNot(Fn.conditionEquals(owner, '')) });
  return Token.asString(Fn.conditionIf(isGiven.logicalId, owner, Aws.ACCOUNT_ID));
}

/** Returns a VPC placement whose subnets and security groups are replaced by parameters. */
function vpcOf(stack: Stack): VpcPlacement {
  const subnet = ec2.Subnet.fromSubnetAttributes(stack, 'Subnet', { subnetId: 'subnet-00000000', routeTableId: 'rtb-00000000' });
  return {
    vpc: ec2.Vpc.fromVpcAttributes(stack, 'Vpc', { vpcId: 'vpc-00000000', availabilityZones: ['any'] }),
    subnets: { subnets: [subnet] },
    securityGroups: [ec2.SecurityGroup.fromSecurityGroupId(stack, 'Group', 'sg-00000000')],
  };
}

/** Returns the list in a comma-separated string. */
function splitList(text: Json): JsonObject {
  return { 'Fn::Split': [',', text] };
}

/** Puts the parts that belong to an option under its condition. */
export function withConditions({ Resources, ...rest }: Template): Template {
  const conditions = Object.fromEntries(Object.entries(Resources).flatMap(([id, resource]) => {
    const option = optionOf(resource, ({ resources = [] }) => resources);
    return option === undefined ? [] : [[id, option]];
  }));
  const resources = Object.entries(Resources).map(([id, resource]): [string, Json] => {
    const properties = Object.entries((resource as JsonObject)['Properties'] as JsonObject).map(([name, value]): [string, Json] =>
      name === 'DashboardBody' ? [name, conditionalText(value as JsonObject, conditions)] : conditionalProperty([name, value]),
    );
    const Condition = conditions[id];
    return [id, { ...(resource as JsonObject), ...(Condition && { Condition }), Properties: makeRemovalsConditional(Object.fromEntries(properties)) }];
  });
  return { ...rest, Resources: Object.fromEntries(resources) };
}

/** Puts each reference to a resource with a condition, and the separator after it, under that condition. */
function conditionalText({ 'Fn::Join': join }: JsonObject, conditions: Readonly<Record<string, string>>): JsonObject {
  const [, parts] = join as [string, readonly Json[]];
  const optionAt = (index: number): string | undefined => {
    const [id] = ((parts[index] as JsonObject | undefined)?.['Fn::GetAtt'] ?? []) as string[];
    return id === undefined ? undefined : conditions[id];
  };
  const conditional = parts.flatMap((part, index): Json[] => {
    const option = optionAt(index);
    if (option === undefined) {
      return optionAt(index - 1) === undefined ? [part] : [];
    }
    if (parts[index + 1] !== '","') {
      throw new Error(`${JSON.stringify(part)} is not followed by another element of its list`);
    }
    return [ifElse(option, { 'Fn::Join': ['', [part, '","']] }, '')];
  });
  return { 'Fn::Join': ['', conditional] };
}

/** Puts a property, a policy statement or a variable under a condition, always as a unit. */
function conditionalProperty([name, value]: [string, Json]): [string, Json] {
  const members = value as JsonObject;
  switch (name) {
    case 'PolicyDocument':
      return [name, { ...members, Statement: (members['Statement'] as readonly Json[]).map(makeConditional) }];
    case 'Environment': {
      const variables = Object.entries(members['Variables'] as JsonObject);
      return [name, { Variables: Object.fromEntries(variables.map(([variable, set]) => [variable, makeConditional(set)])) }];
    }
    default:
      return [name, makeConditional(value)];
  }
}

function makeConditional(part: Json): Json {
  const option = optionOf(part, ({ marks }) => marks);
  return option === undefined ? part : ifElse(option, part, NO_VALUE);
}

/** Returns the option with a string that occurs in this part. */
function optionOf(part: Json, textsOf: (option: Option) => readonly string[]): string | undefined {
  const text = JSON.stringify(part);
  const [option, ...others] = OPTION_NAMES.filter((name) => textsOf(OPTIONS[name]).some((mark) => text.includes(mark)));
  if (others.length > 0) {
    throw new Error(`${text} belongs to ${option} and ${others.join(', ')}, which no single condition expresses`);
  }
  return option;
}

/**
 * Makes conditional the two parts that an option removes: SQS's own encryption of a queue, and the condition in a
 * role's trust policy.
 */
function makeRemovalsConditional(properties: JsonObject): JsonObject {
  if ('KmsMasterKeyId' in properties) {
    return { ...properties, SqsManagedSseEnabled: ifElse('HasKey', NO_VALUE, true) };
  }
  const { AssumeRolePolicyDocument } = properties;
  return AssumeRolePolicyDocument === undefined ? properties : { ...properties, AssumeRolePolicyDocument: withAccount(AssumeRolePolicyDocument as JsonObject) };
}

function withAccount({ Statement, ...rest }: JsonObject): JsonObject {
  const [trust] = Statement as readonly [JsonObject];
  return { ...rest, Statement: [{ ...trust, Condition: ifElse('IsInVpc', NO_VALUE, { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } }) }] };
}

/** Replaces literals that the construct needs with parameters. */
function withParameters(resource: JsonObject, architecture: lambda.Architecture): JsonObject {
  const properties = resource['Properties'] as JsonObject;
  switch (resource['Type']) {
    case 'AWS::Lambda::Function':
      return { ...resource, Properties: { ...properties, ...functionParameters(properties, architecture) } };
    case 'AWS::CloudWatch::Alarm':
      return { ...resource, Properties: { ...properties, ...alarmParameters(properties) } };
    case 'AWS::Lambda::EventSourceMapping':
      return { ...resource, Properties: { ...properties, ...mappingParameters(properties) } };
    case 'AWS::IAM::Policy':
      return { ...resource, Properties: { ...properties, ...policyParameters(properties) } };
    case 'AWS::Logs::LogGroup':
      return { ...resource, Properties: { ...properties, RetentionInDays: { Ref: 'LogRetentionDays' } } };
    default:
      return resource;
  }
}

/** The template parameter of each environment variable. The functions treat an empty variable as not set. */
const PARAMETER_BY_VARIABLE = {
  RETRY_POLICY: 'Policy',
  ENVELOPE: 'Envelope',
  MESSAGE_ID_POINTER: 'MessageIdPointer',
  TARGET_TENANT_ISOLATION: 'TenantIsolation',
  TARGET_DURABLE: 'DurableFunction',
  TARGET_ERROR_EXCERPT: 'ErrorExcerpt',
};

function functionParameters(properties: JsonObject, architecture: lambda.Architecture): JsonObject {
  const VpcConfig = { SecurityGroupIds: splitList({ Ref: 'VpcSecurityGroupIds' }), SubnetIds: splitList({ Ref: 'VpcSubnetIds' }) };
  const { Variables } = properties['Environment'] as { Variables: JsonObject };
  const given = Object.entries(PARAMETER_BY_VARIABLE).filter(([name]) => name in Variables);
  const parameters = Object.fromEntries(given.map(([name, parameter]) => [name, { Ref: parameter }]));
  const { Code, Handler } = properties as { Code: JsonObject; Handler: string };
  return {
    // The handler is the function's own name. Inline code is not packaged as a zip.
    Code: 'ZipFile' in Code ? Code : zipOf(Handler, architecture),
    Environment: { Variables: { ...Variables, ...parameters } },
    ...('VpcConfig' in properties && { VpcConfig }),
  };
}

function mappingParameters({ EventSourceArn }: JsonObject): JsonObject {
  const queue = JSON.stringify(EventSourceArn);
  if (queue.includes('SourceDlq')) {
    // This queue is usually empty, so the construct's value is kept.
    return {};
  }
  const isSource = queue.includes('SourceQueue');
  return { ScalingConfig: { MaximumConcurrency: { Ref: isSource ? 'MaxConcurrency' : 'InnerConcurrency' } } };
}

/**
 * Adds the permission to publish to `NotifyArn`, whose service is not known. An action has no effect on a resource of
 * another service, and the condition holds for `sns:Publish`, which does not have the condition's keys.
 */
function policyParameters({ PolicyDocument }: JsonObject): JsonObject {
  const { Statement, ...rest } = PolicyDocument as { readonly Statement: readonly JsonObject[] };
  const statements = splitByKey(Statement).map((statement) => (statement['Action'] === 'sns:Publish' ? { ...statement, ...PUBLISH } : statement));
  return { PolicyDocument: { ...rest, Statement: statements } };
}

/**
 * Splits statements about keys into one statement per key, at the end. The CDK merges the statements of several keys,
 * but each key is a separate option.
 */
function splitByKey(statements: readonly JsonObject[]): JsonObject[] {
  const isAboutKeys = ({ Action }: JsonObject): boolean => JSON.stringify(Action).includes('"kms:');
  const rights = statements.filter(isAboutKeys).flatMap(({ Action, Resource }) => [Resource].flat().map((key) => ({ key: JSON.stringify(key), actions: [Action].flat() })));
  const keys = [...new Set(rights.map(({ key }) => key))].sort();
  const keyStatements = keys.map((key): JsonObject => {
    const actions = new Set(rights.filter((right) => right.key === key).flatMap((right) => right.actions as string[]));
    const [only = '', ...others] = [...actions].sort();
    return { Action: others.length === 0 ? only : [only, ...others], Effect: 'Allow', Resource: JSON.parse(key) };
  });
  return [...statements.filter((statement) => !isAboutKeys(statement)), ...keyStatements];
}

const PUBLISH = { Action: ['events:PutEvents', 'sns:Publish'], Condition: ONLY_NOTICES };

/** Returns the name of the zip next to the template, which `cargo xtask dist functions` creates. */
export function zipOf(name: string, architecture: lambda.Architecture): string {
  return `redeliver-${name}-${architecture.name.replace('_', '-')}.zip`;
}

/** Replaces literal values in an alarm's threshold and description. */
function alarmParameters({ MetricName, AlarmName }: JsonObject): JsonObject {
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
  return {};
}

/** Replaces the placeholder with the parameter `Prefix`. */
export function withPrefixParameter(value: Json): Json {
  if (typeof value === 'string') {
    return value.includes(PREFIX) ? { 'Fn::Sub': replacePrefix(value.replaceAll('${', '${!')) } : value;
  }
  if (Array.isArray(value)) {
    return value.map(withPrefixParameter);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const members = Object.entries(value).map(([name, member]): [string, Json] =>
    name === 'Fn::Sub' && typeof member === 'string' ? [name, replacePrefix(member)] : [name, withPrefixParameter(member)],
  );
  return Object.fromEntries(members);
}

function replacePrefix(text: string): string {
  return text.replaceAll(PREFIX, '${Prefix}');
}

/** Returns the value of a parameter, which is created only once per stack. */
export function valueOf(stack: Stack, parameter: keyof typeof PARAMETERS | 'SourceQueueArn'): string {
  const known = stack.node.tryFindChild(parameter) as CfnParameter | undefined;
  return (known ?? new CfnParameter(stack, parameter)).valueAsString;
}

export function cdkContext(): Record<string, unknown> {
  const cdkJson: { context: Record<string, unknown> } = JSON.parse(
    readFileSync(join(__dirname, '../cdk.json'), 'utf8'),
  );
  return cdkJson.context;
}
