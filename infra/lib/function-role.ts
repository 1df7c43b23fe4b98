import { Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

import type { CommonSettings } from './common-settings';

/**
 * Creates the role of a function. Lambda can assume it only for functions in the role's account; AWS uses this
 * condition in one of its own trust policies (`lambda-trust-policy.json` of agent-toolkit-for-aws). Roles for a VPC
 * lack this condition, because it would prevent the creation of the first function in a VPC (pull request 6926 of
 * aws-parallelcluster).
 */
export function createRole(scope: Construct, id: string, { vpc }: CommonSettings, description: string): iam.Role {
  const conditions = vpc ? {} : { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } };
  return new iam.Role(scope, id, { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com', { conditions }), description });
}
