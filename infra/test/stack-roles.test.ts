import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Redeliver, type RedeliverProps, SigV4, SourceQueue, Target } from '../lib/index';
import { grants, makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP, templateWith } from './stack-support';

const ACCOUNT = 'eu-west-1:111122223333';
const TARGET = `arn:aws:lambda:${ACCOUNT}:function:orders`;
const SECRET = `arn:aws:secretsmanager:${ACCOUNT}:secret:headers-AbCdEf`;
const QUEUE_KEY = `arn:aws:kms:${ACCOUNT}:key/0191f3a2-7b1c-7d3e-8f00-00000000000a`;
const EXISTING = `arn:aws:sqs:${ACCOUNT}:orders`;
const NETWORK = [
  'AssignPrivateIpAddresses', 'CreateNetworkInterface', 'DeleteNetworkInterface',
  'DescribeNetworkInterfaces', 'DescribeSubnets', 'UnassignPrivateIpAddresses',
].map((action) => `ec2:${action}`);

function allow(actions: string[], ...on: string[]): string[] {
  return actions.flatMap((action) => on.map((resource) => `Allow ${action} on ${resource}`));
}

/**
 * Returns the statements that let Lambda attach a function to a VPC but deny the function's code the same permissions.
 */
function vpcStatements(name: string): string[] {
  const itself = `arn:{AWS::Partition}:lambda:{AWS::Region}:{AWS::AccountId}:function:redeliver-prod-${name}`;
  return [...allow(NETWORK, '*'), ...NETWORK.map((action) => `Deny ${action} on * if {"ArnEquals":{"lambda:SourceFunctionArn":"${itself}"}}`)];
}

/** Returns the permissions of every function: to write its log, send traces, receive from its queue, and send. */
function usualPermissions(id: string, from: string, ...to: string[]): string[] {
  const take = ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'];
  return [
    ...allow(['logs:CreateLogStream', 'logs:PutLogEvents'], `{${id}Logs.Arn}`),
    ...allow(['xray:PutTelemetryRecords', 'xray:PutTraceSegments'], '*'),
    ...allow(take.map((action) => `sqs:${action}`), from),
    ...allow(['sqs:SendMessage'], ...to),
  ];
}

const useKey = ['kms:Decrypt', 'kms:GenerateDataKey'];
const inner = ['{AnnotationQueue.Arn}', '{IntermediateDlq.Arn}'];
const innerRoles = {
  FailedMessageProcessor: usualPermissions('FailedMessageProcessor', '{IntermediateDlq.Arn}', '{AnnotationQueue.Arn}', '{SourceQueue.Arn}'),
  FinalDlqAnnotator: usualPermissions('FinalDlqAnnotator', '{AnnotationQueue.Arn}', '{FinalDlq.Arn}'),
};

interface Case {
  readonly name: string;
  readonly props: (stack: Stack) => RedeliverProps;
  readonly expected: Record<string, string[]>;
}

const CASES: Case[] = [
  {
    name: 'an HTTP target with a secret',
    props: (stack) => ({
      target: Target.http('https://orders.example.com/', { headersSecret: secretsmanager.Secret.fromSecretCompleteArn(stack, 'Secret', SECRET) }),
    }),
    expected: {
      ...innerRoles,
      MessageProcessor: [
        ...usualPermissions('MessageProcessor', '{SourceQueue.Arn}', ...inner, '{SourceQueue.Arn}'),
        ...allow(['secretsmanager:DescribeSecret', 'secretsmanager:GetSecretValue'], SECRET),
      ],
    },
  },
  {
    name: 'a Lambda target, a key and a VPC',
    props: (stack) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', TARGET)),
      encryptionKey: new kms.Key(stack, 'Key'),
      vpc: {
        vpc: ec2.Vpc.fromVpcAttributes(stack, 'Vpc', { 
          vpcId: 'vpc-0123456789abcdef0',
          availabilityZones: ['eu-west-1a'],
          privateSubnetIds: ['subnet-0123456789abcdef1'],
          privateSubnetRouteTableIds: ['rtb-0123456789abcdef1'],
          isolatedSubnetIds: ['subnet-0123456789abcdef2'],
          isolatedSubnetRouteTableIds: ['rtb-0123456789abcdef2'],
        }),
        subnets: { subnetType: ec2.SubnetType.PRIVATE_ISOLATED },
        securityGroups: [ec2.SecurityGroup.fromSecurityGroupId(stack, 'Group', 'sg-0123456789abcdef0')],
      },
    }),
    expected: {
      MessageProcessor: [
        ...usualPermissions('MessageProcessor', '{SourceQueue.Arn}', ...inner, '{SourceQueue.Arn}'),
        ...allow(useKey, '{Key.Arn}'),
        ...allow(['lambda:InvokeFunction'], TARGET),
        ...vpcStatements('message-processor'),
      ],
      FailedMessageProcessor: [...innerRoles.FailedMessageProcessor, ...allow(useKey, '{Key.Arn}'), ...vpcStatements('failed-message-processor')],
      FinalDlqAnnotator: [...innerRoles.FinalDlqAnnotator, ...allow(useKey, '{Key.Arn}'), ...vpcStatements('final-dlq-annotator')],
    },
  },
  {
    name: 'an existing source queue with a key, which also encrypts the other queues',
    props: (stack) => ({
      ...HTTP,
      existingSourceQueue: SourceQueue.fromArn(EXISTING, { encryptionKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) }),
    }),
    expected: {
      MessageProcessor: [...usualPermissions('MessageProcessor', EXISTING, ...inner, EXISTING), ...allow(useKey, QUEUE_KEY)],
      FailedMessageProcessor: [
        ...usualPermissions('FailedMessageProcessor', '{IntermediateDlq.Arn}', '{AnnotationQueue.Arn}', EXISTING),
        ...allow(useKey, QUEUE_KEY),
      ],
      FinalDlqAnnotator: [...innerRoles.FinalDlqAnnotator, ...allow(useKey, QUEUE_KEY)],
      // The name includes a hash of the queue's ARN.
      SourceQueueAttributes7cfbb9ccSetter: [
        ...allow(['logs:CreateLogStream', 'logs:PutLogEvents'], '{SourceQueueAttributes7cfbb9ccSetterLogs.Arn}'),
        ...allow(['sqs:GetQueueAttributes', 'sqs:SetQueueAttributes'], EXISTING),
      ],
    },
  },
  {
    name: 'a source queue of the same stack, with a key',
    props: (stack) => ({
      ...HTTP,
      existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { encryptionMasterKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) })),
    }),
    expected: {
      MessageProcessor: [...usualPermissions('MessageProcessor', '{Orders.Arn}', ...inner, '{Orders.Arn}'), ...allow(useKey, QUEUE_KEY)],
      FailedMessageProcessor: [
        ...usualPermissions('FailedMessageProcessor', '{IntermediateDlq.Arn}', '{AnnotationQueue.Arn}', '{Orders.Arn}'),
        ...allow(useKey, QUEUE_KEY),
      ],
      FinalDlqAnnotator: [...innerRoles.FinalDlqAnnotator, ...allow(useKey, QUEUE_KEY)],
    },
  },
  {
    name: 'an existing source queue with one key, and other queues with a different key',
    props: (stack) => ({
      ...HTTP,
      encryptionKey: new kms.Key(stack, 'Key'),
      existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { encryptionMasterKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) })),
    }),
    expected: {
      MessageProcessor: [
        ...usualPermissions('MessageProcessor', '{Orders.Arn}', ...inner, '{Orders.Arn}'),
        ...allow(useKey, '{Key.Arn}'),
        ...allow(useKey, QUEUE_KEY),
      ],
      FailedMessageProcessor: [
        ...usualPermissions('FailedMessageProcessor', '{IntermediateDlq.Arn}', '{AnnotationQueue.Arn}', '{Orders.Arn}'),
        ...allow(useKey, '{Key.Arn}'),
        ...allow(useKey, QUEUE_KEY),
      ],
      FinalDlqAnnotator: [...innerRoles.FinalDlqAnnotator, ...allow(useKey, '{Key.Arn}')],
    },
  },
];

const SIGNED: Record<string, { readonly sigV4: SigV4; readonly service: string; readonly rights: string[] }> = {
  'a function URL': {
    sigV4: SigV4.functionUrl(TARGET),
    service: 'lambda',
    rights: [
      `Allow lambda:InvokeFunction on ${TARGET} if {"Bool":{"lambda:InvokedViaFunctionUrl":"true"}}`,
      `Allow lambda:InvokeFunctionUrl on ${TARGET}`,
    ],
  },
  'an API of API Gateway': {
    sigV4: SigV4.apiGateway(`arn:aws:execute-api:${ACCOUNT}:a1b2c3/prod/POST/hook`),
    service: 'execute-api',
    rights: allow(['execute-api:Invoke'], `arn:aws:execute-api:${ACCOUNT}:a1b2c3/prod/POST/hook`),
  },
  'a service of VPC Lattice': {
    sigV4: SigV4.vpcLattice(`arn:aws:vpc-lattice:${ACCOUNT}:service/svc-0123456789abcdef0`),
    service: 'vpc-lattice-svcs',
    rights: allow(['vpc-lattice-svcs:Invoke'], `arn:aws:vpc-lattice:${ACCOUNT}:service/svc-0123456789abcdef0/*`),
  },
};

describe('a role that signs calls can make these calls and no others', () => {
  for (const [name, { sigV4, service, rights }] of Object.entries(SIGNED)) {
    test(name, () => {
      const template = templateWith(() => ({ target: Target.http('https://orders.example.com/', { sigV4 }) }));
      const expected = [...usualPermissions('MessageProcessor', '{SourceQueue.Arn}', ...inner, '{SourceQueue.Arn}'), ...rights];
      assert.deepEqual(grants(template, 'MessageProcessorRole'), expected.sort());
      template.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: { TARGET_SIGV4: service } } });
    });
  }
});

/** Creates a stack without feature flags. The construct is named `Retries`, which short ids omit. */
function createBareTemplate(props: (stack: Stack) => RedeliverProps): Template {
  // No context, as in an app without feature flags.
  const stack = new Stack(new App(), 'Test');
  new Redeliver(stack, 'Retries', { bundles: fakeBundles(), ...props(stack) });
  return Template.fromStack(stack);
}

describe("a role has exactly its function's permissions", () => {
  for (const { name, props, expected } of CASES) {
    test(name, () => {
      for (const template of [templateWith(props), createBareTemplate(props)]) {
        const roles = Object.keys(resources(template, 'AWS::IAM::Role'));
        assert.deepEqual(roles.sort(), Object.keys(expected).map((id) => `${id}Role`).sort());
        for (const [id, permissions] of Object.entries(expected)) {
          assert.deepEqual(grants(template, `${id}Role`), [...permissions].sort(), id);
        }
      }
    });
  }

  test("only Lambda can assume it (outside a VPC only for this account's functions), and it exists before its function", () => {
    const trust = { Action: 'sts:AssumeRole', Effect: 'Allow', Principal: { Service: 'lambda.amazonaws.com' } };
    const ofAccount = { ...trust, Condition: { StringEquals: { 'aws:SourceAccount': '{AWS::AccountId}' } } };
    const inVpc = CASES.map(({ props }) => {
      const template = templateWith(props);
      const functions = Object.values(resources(template, 'AWS::Lambda::Function'));
      const isInVpc = functions.some(({ Properties }) => 'VpcConfig' in Properties);
      for (const role of Object.values(resources(template, 'AWS::IAM::Role'))) {
        assert.deepEqual(makeReadable(role.Properties['AssumeRolePolicyDocument'].Statement), [isInVpc ? trust : ofAccount]);
      }
      const policies = Object.keys(template.findResources('AWS::IAM::Policy'));
      for (const [id, { Properties, ...found }] of Object.entries(resources(template, 'AWS::Lambda::Function'))) {
        assert.equal(makeReadable(Properties['Role']), `{${id}Role.Arn}`);
        const policy = policies.find((policy) => policy.startsWith(`Retries${id}RoleDefaultPolicy`));
        assert.ok((found as { DependsOn?: string[] }).DependsOn?.includes(policy ?? 'none'), id);
      }
      return isInVpc;
    });
    assert.deepEqual(inVpc, [false, true, false, false, false]);
  });

  test('the given VPC placement is used', () => {
    const props = CASES[1]?.props ?? (() => HTTP);
    const { MessageProcessor } = resources(templateWith(props), 'AWS::Lambda::Function');
    assert.deepEqual(MessageProcessor?.Properties['VpcConfig'], { SubnetIds: ['subnet-0123456789abcdef2'], SecurityGroupIds: ['sg-0123456789abcdef0'] });
  });
});
