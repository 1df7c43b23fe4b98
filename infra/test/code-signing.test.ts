import { Aspects } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as signer from 'aws-cdk-lib/aws-signer';
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { makeReadable, resources } from './stack-exact';
import { HTTP, stackWith } from './stack-support';

test('with the aspect of docs/deploy/cdk.md, each function runs its signed zip, and Lambda checks the signature', () => {
  const { stack, redeliver: retries } = stackWith(() => HTTP);
  const profile = new signer.SigningProfile(stack, 'Profile', { platform: signer.Platform.AWS_LAMBDA_SHA384_ECDSA });
  const config = new lambda.CodeSigningConfig(stack, 'Signed', {
    signingProfiles: [profile],
    untrustedArtifactOnDeployment: lambda.UntrustedArtifactOnDeployment.ENFORCE,
  });
  // docs/deploy/cdk.md shows it.
  Aspects.of(retries).add({
    visit: (node) => {
      if (node instanceof lambda.CfnFunction) {
        node.codeSigningConfigArn = config.codeSigningConfigArn;
        node.code = { s3Bucket: 'signed-code', s3Key: `redeliver-0.1.0/${node.handler}.zip` };
      }
    },
  });
  const functions = Object.values(resources(Template.fromStack(stack), 'AWS::Lambda::Function'));
  const found = functions.map(({ Properties: { CodeSigningConfigArn, Code } }) => [makeReadable(CodeSigningConfigArn), Code]);
  assert.deepEqual(found, ['message-processor', 'failed-message-processor', 'final-dlq-annotator'].map((name) => [
    '{Signed.CodeSigningConfigArn}',
    { S3Bucket: 'signed-code', S3Key: `redeliver-0.1.0/${name}.zip` },
  ]));
});
