import { Duration, type Stack } from 'aws-cdk-lib';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { SourceQueue, Target } from '../lib/index';
import { ifElse, type Json, type JsonObject, mergeTemplates, type Template } from './merge';
import { conditionsOf, parameterEquals, OPTION_NAMES, type OptionName, PARAMETERS as SHARED, RULES } from './parameters';
import { asFile, constructTemplate, HEAD, type Package, valueOf, withConditions, zipOf } from './template';

/** The parameters of the template for an existing function. */
export const PARAMETERS = {
  Prefix: SHARED.Prefix,
  FunctionName: {
    Type: 'String',
    AllowedPattern: '[A-Za-z0-9_-]{1,64}',
    Description: 'The function that handles the messages, in this account and region.',
  },
  RoleName: {
    Type: 'String',
    AllowedPattern: '[\\w+=,.@-]{1,64}',
    Description: "The name of the function's role, which gets permissions on the queues.",
  },
  RoleId: {
    Type: 'String',
    AllowedPattern: 'AROA[A-Z0-9]{12,124}',
    Description: "The unique id of that role, which identifies its re-sends: 'aws iam get-role --role-name NAME --query Role.RoleId'.",
  },
  RolePath: {
    Type: 'String',
    Default: '/',
    AllowedPattern: '/([!-~]+/)?',
    Description: "The path of that role in its ARN: '/service-role/' if the console created it.",
  },
  SourceQueueArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:sqs:[^:]+:\\d{12}:[A-Za-z0-9_-]{1,80})?',
    Description: "The ARN of an existing standard queue in this account and region that the function reads. '': a new queue.",
  },
  VisibilityTimeoutSeconds: {
    Type: 'Number',
    Default: 361,
    MinValue: 67,
    MaxValue: 43_200,
    Description: "At least six times the function's timeout, which must be more than 10 s, plus the batching window of 1 s.",
  },
  ReadsQueue: {
    Type: 'String',
    Default: 'false',
    AllowedValues: ['true', 'false'],
    Description: 'Set it to true once the function has the layer and the variables from the outputs, and no mapping of its own for the queue; it then gets messages.',
  },
  Policy: SHARED.Policy,
  // The construct's default for a user's function.
  Envelope: {
    ...SHARED.Envelope,
    Default: 'optional',
    Description: 'optional: messages in any format. required: only those with an envelope.',
  },
  MessageIdPointer: SHARED.MessageIdPointer,
  MaxConcurrency: SHARED.MaxConcurrency,
  InnerConcurrency: SHARED.InnerConcurrency,
  KmsKeyArn: SHARED.KmsKeyArn,
  LogKeyArn: SHARED.LogKeyArn,
  EnvironmentKeyArn: SHARED.EnvironmentKeyArn,
  ProducerPrincipals: SHARED.ProducerPrincipals,
  VpcSubnetIds: { ...SHARED.VpcSubnetIds, Description: "The subnets of redeliver's own functions in your VPC, comma-separated. '': no VPC." },
  VpcSecurityGroupIds: SHARED.VpcSecurityGroupIds,
  ArchiveBucket: SHARED.ArchiveBucket,
  ArchiveBucketOwner: SHARED.ArchiveBucketOwner,
  ArchiveKeyArn: SHARED.ArchiveKeyArn,
  ArchivePrefix: SHARED.ArchivePrefix,
  ArchiveOmit: SHARED.ArchiveOmit,
  NotifyArn: SHARED.NotifyArn,
  NotifyKeyArn: SHARED.NotifyKeyArn,
  PermissionsBoundaryArn: SHARED.PermissionsBoundaryArn,
  LogRetentionDays: SHARED.LogRetentionDays,
  Tracing: SHARED.Tracing,
  AlarmTopicArn: SHARED.AlarmTopicArn,
  MessageAgeAlarmSeconds: SHARED.MessageAgeAlarmSeconds,
} satisfies JsonObject;

/** The options that do not depend on the function or its target. */
export const OWN_OPTIONS = OPTION_NAMES.filter((name) => name !== 'HasHeaders');

/** The conditions of the resources. */
export const CONDITIONS: JsonObject = {
  IsRead: parameterEquals('ReadsQueue', 'true'),
  CreatesQueue: parameterEquals('SourceQueueArn', ''),
  TakesQueue: { 'Fn::Not': [{ Condition: 'CreatesQueue' }] },
  ...conditionsOf(OWN_OPTIONS),
};

/** The source queue: a new queue, or the queue with `SourceQueueArn`. */
export type Source = 'new' | 'existing';

/** Rejects producers for an existing queue, whose own policy determines who may send to it. */
const PRODUCERS_RULE: JsonObject = {
  RuleCondition: { 'Fn::Not': [parameterEquals('SourceQueueArn', '')] },
  Assertions: [
    {
      Assert: parameterEquals('ProducerPrincipals', ''),
      AssertDescription: 'Remove ProducerPrincipals: the policy of the queue of SourceQueueArn says who may send to it.',
    },
  ],
};

/** The id of the construct's placeholder function, which is replaced by the parameters. */
const STAND_IN = 'OwnFunction';
/** The types of the resources that the construct adds to the function. */
const ADDED_TYPES = ['AWS::IAM::Policy', 'AWS::Lambda::EventSourceMapping'];

/** Returns the template file for an existing function, with all resources except the function. */
export function ownFunctionTemplateFile(from: Package): string {
  const [taken, created] = (['existing', 'new'] as const).map((source) => withConditions(ownFunctionTemplate(from, OWN_OPTIONS, source))) as [Template, Template];
  const { Conditions, ...rest } = mergeTemplates('TakesQueue', taken, created, 'CreatesQueue');
  const { PointersAreForAnyBody, ArchiveHasBucket, NotifyKeyHasTopic, VpcIsComplete } = RULES;
  const Rules = { PointersAreForAnyBody, ArchiveHasBucket, NotifyKeyHasTopic, VpcIsComplete, ProducersAreOfANewQueue: PRODUCERS_RULE };
  return asFile({ ...HEAD, Parameters: PARAMETERS, Rules, Conditions: { ...CONDITIONS, ...Conditions }, ...rest });
}

/** Returns the construct's template for a function in its stack, without the function, its role and its log group. */
export function ownFunctionTemplate(from: Package, options: readonly OptionName[], source: Source): Template {
  // The policy of an existing queue determines who may send to it.
  const offered = source === 'new' ? options : options.filter((option) => option !== 'HasProducers');
  const made = constructTemplate(from, offered, (stack) => ({
    target: Target.ownFunction(createStandIn(stack, from.architecture)),
    ...(source === 'existing' && { existingSourceQueue: importSourceQueue(stack, options.includes('HasKey')) }),
  }));
  const [functionId, own] = onlyResource(made, 'AWS::Lambda::Function');
  const [roleId] = onlyResource(made, 'AWS::IAM::Role');
  const [rightsId] = onlyResource(made, 'AWS::IAM::Policy');
  const [setterId] = Object.entries(made.Resources).find(([, resource]) => stepOf(resource as JsonObject) === 'set') ?? [];
  const elsewhere = (value: Json): Json => {
    const [where, what] = isObject(value) ? (Object.entries(value)[0] ?? []) : [];
    if (where === 'Ref' && (what === functionId || what === roleId)) {
      return { Ref: what === functionId ? 'FunctionName' : 'RoleName' };
    }
    if (where === 'Fn::GetAtt' && Array.isArray(what) && what[0] === roleId && what[1] === 'Arn') {
      return { 'Fn::Sub': 'arn:${AWS::Partition}:iam::${AWS::AccountId}:role${RolePath}${RoleName}' };
    }
    if (where === 'Fn::GetAtt' && Array.isArray(what) && what[0] === roleId && what[1] === 'RoleId') {
      return { Ref: 'RoleId' };
    }
    if (Array.isArray(value)) {
      return value.filter((element) => element !== functionId && element !== roleId).map(elsewhere);
    }
    return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, elsewhere(member)])) : value;
  };
  const resources = Object.entries(made.Resources)
    .filter(([id, resource]) => !id.startsWith(STAND_IN) || ADDED_TYPES.includes(String((resource as JsonObject)['Type'])))
    .map(([id, resource]): [string, Json] => [id, withParameters(elsewhere(resource) as JsonObject, rightsId, setterId, from.architecture)]);
  const { RETRY_POLICY: policy = '', ...others } = ((own['Properties'] as JsonObject)['Environment'] as { Variables: JsonObject }).Variables;
  const [layerId] = onlyResource(made, 'AWS::Lambda::LayerVersion');
  return {
    ...made,
    Resources: Object.fromEntries(resources),
    Outputs: {
      ...made.Outputs,
      LayerArn: { Description: "Add it to the function's layers.", Value: { Ref: layerId } },
      FunctionVariables: {
        Description: "Add them to the function's environment. Each line is NAME=VALUE; the policy comes last and may span lines.",
        Value: { 'Fn::Join': ['\n', Object.entries({ ...others, RETRY_POLICY: policy }).map(([name, value]) => variableLine(name, elsewhere(value)))] },
      },
    },
  };
}

/** Returns the queue whose ARN is `SourceQueueArn`, encrypted with the key in `KmsKeyArn`, if any. */
function importSourceQueue(stack: Stack, hasKey: boolean): SourceQueue {
  const key = hasKey && { encryptionKey: kms.Key.fromKeyArn(stack, 'SourceKey', valueOf(stack, 'KmsKeyArn')) };
  return SourceQueue.fromArn(valueOf(stack, 'SourceQueueArn'), { ...key });
}

/**
 * Returns the step of a resource that sets the attributes of an existing queue, or `undefined` for any other resource.
 */
function stepOf({ Type, Properties }: JsonObject): Json | undefined {
  return Type === 'Custom::RedeliverSourceQueue' ? (Properties as JsonObject)['Step'] : undefined;
}

function createStandIn(stack: Stack, architecture: lambda.Architecture): lambda.Function {
  return new lambda.Function(stack, STAND_IN, {
    runtime: lambda.Runtime.PYTHON_3_14,
    handler: 'index.handler',
    code: lambda.Code.fromInline('def handler(event, context): pass'),
    timeout: Duration.seconds(60),
    architecture,
  });
}

/** Returns the only resource of a type, or the resource of this type that belongs to the stand-in. */
function onlyResource({ Resources }: Template, type: string): [string, JsonObject] {
  const all = Object.entries(Resources).filter((entry): entry is [string, JsonObject] => (entry[1] as JsonObject)['Type'] === type);
  const found = all.length === 1 ? all : all.filter(([id]) => id.startsWith(STAND_IN));
  if (found.length !== 1 || found[0] === undefined) {
    throw new Error(`${found.length} resources of type ${type} belong to the stand-in; expected one`);
  }
  return found[0];
}

function withParameters(resource: JsonObject, rightsId: string, setterId: string | undefined, architecture: lambda.Architecture): JsonObject {
  const properties = resource['Properties'] as JsonObject;
  const { Type } = resource;
  if (Type === 'AWS::IAM::Policy' && JSON.stringify(properties['Roles']) === '[{"Ref":"RoleName"}]') {
    // The policy's name contains the prefix, since functions that share a role have one stack each. The mapping, not
    // this policy, waits for an existing queue's attributes.
    const { DependsOn: _setter, ...rights } = resource;
    return { ...rights, Properties: { ...properties, PolicyName: { 'Fn::Sub': '${Prefix}-messages' } } };
  }
  if (Type === 'AWS::Lambda::LayerVersion') {
    // The function uses the old version until the new one is added to it.
    return { ...resource, DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain', Properties: { ...properties, Content: zipOf('layer', architecture) } };
  }
  if (Type === 'AWS::Lambda::EventSourceMapping' && JSON.stringify(properties['FunctionName']) === '{"Ref":"FunctionName"}') {
    // Lambda checks the permissions when the mapping is created. The id of the setter resource is the queue's ARN once
    // the attributes are set.
    const queue: JsonObject = setterId === undefined ? {} : { EventSourceArn: { Ref: setterId } };
    // Lambda allows only one mapping per queue and function, even if it is disabled, so the function's own mapping must
    // be removed first.
    return { ...resource, Condition: 'IsRead', DependsOn: [rightsId], Properties: { ...properties, ...queue } };
  }
  if (stepOf(resource) !== undefined) {
    const HasKey = ifElse('HasKey', 'true', 'false');
    return { ...resource, Properties: { ...properties, HasKey, VisibilityTimeout: { Ref: 'VisibilityTimeoutSeconds' } } };
  }
  if (Type === 'AWS::SQS::Queue' && JSON.stringify(properties['QueueName'])?.includes('-source')) {
    return { ...resource, Properties: { ...properties, VisibilityTimeout: { Ref: 'VisibilityTimeoutSeconds' } } };
  }
  return resource;
}

/** Returns a line `NAME=VALUE`. */
function variableLine(name: string, value: Json): Json {
  return typeof value === 'string' ? `${name}=${value}` : { 'Fn::Join': ['', [`${name}=`, value]] };
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
