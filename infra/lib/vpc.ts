import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

import type { CommonSettings } from './common-settings';

const NETWORK_INTERFACE_ACTIONS = [
  'ec2:AssignPrivateIpAddresses',
  'ec2:CreateNetworkInterface',
  'ec2:DeleteNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:UnassignPrivateIpAddresses',
];

/**
 * Lets the Lambda service attach a function to a VPC, but denies these permissions to the function's own code ("Giving
 * Lambda functions access to resources in an Amazon VPC", "Security best practices"). The actions have no narrower
 * resource, since the interface does not exist yet.
 */
export function allowNetworkInterfaces(role: iam.Role, functionArn: string): void {
  role.addToPolicy(
    new iam.PolicyStatement({ sid: 'AttachToVpc', actions: NETWORK_INTERFACE_ACTIONS, resources: ['*'] }),
  );
  role.addToPolicy(
    new iam.PolicyStatement({
      sid: 'ButNotFromTheFunction',
      effect: iam.Effect.DENY,
      actions: NETWORK_INTERFACE_ACTIONS,
      resources: ['*'],
      conditions: { ArnEquals: { 'lambda:SourceFunctionArn': functionArn } },
    }),
  );
}

/** Returns our functions' VPC settings, and the key of their environment variables. */
export function placement({ vpc, environmentEncryptionKey: key }: CommonSettings): Partial<lambda.FunctionProps> {
  return {
    ...(key && { environmentEncryption: key }),
    ...(vpc && {
      vpc: vpc.vpc,
      ...(vpc.subnets && { vpcSubnets: vpc.subnets }),
      ...(vpc.securityGroups && { securityGroups: vpc.securityGroups }),
    }),
  };
}
