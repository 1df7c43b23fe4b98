// An app that the end-to-end tests deploy: for each library a function of a user's own in the message-processor's place.

import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

import { Envelope, Redeliver, RetryPolicy, Target } from '../lib/index';

const path = (relative: string): string => join(__dirname, relative);

/** By the library's name: how its function is run, and its code. */
const FUNCTIONS: Record<string, () => Pick<lambda.FunctionProps, 'runtime' | 'handler' | 'code'>> = {
  Node: () => ({ runtime: lambda.Runtime.NODEJS_22_X, handler: 'index.handler', code: lambda.Code.fromAsset(bundled('functions/orders.mjs')) }),
  Python: () => ({ runtime: lambda.Runtime.PYTHON_3_13, handler: 'orders.handler', code: lambda.Code.fromAsset(copied('functions/orders.py')) }),
};

const app = new App();
const stack = new Stack(app, 'Functions');
for (const [name, code] of Object.entries(FUNCTIONS)) {
  const done = new sqs.Queue(stack, `${name}Done`, { removalPolicy: RemovalPolicy.DESTROY });
  const own = new lambda.Function(stack, `${name}Orders`, {
    ...code(),
    timeout: Duration.seconds(30),
    environment: { DONE_QUEUE_URL: done.queueUrl },
  });
  done.grantSendMessages(own);
  const { sourceQueue, finalDlq } = new Redeliver(stack, `${name}Retries`, {
    architecture: app.node.tryGetContext('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
    removalPolicy: RemovalPolicy.DESTROY,
    prefix: name.toLowerCase(),
    target: Target.ownFunction(own),
    policy: RetryPolicy.fromJson({ max_attempts: 2, backoff: { kind: 'fixed', delay_seconds: 1, jitter: 'none' } }),
    envelope: Envelope.OPTIONAL,
    messageIdPointer: '/order',
  });
  for (const [queue, { queueUrl }] of Object.entries({ Source: sourceQueue, FinalDlq: finalDlq, Done: done })) {
    new CfnOutput(stack, `${name}${queue}Url`, { value: queueUrl });
  }
}

/** A module of Node.js with all that it imports, in a directory of its own: the library as it is built, and AWS's SDK as it has it. */
function bundled(file: string): string {
  const library = createRequire(join(__dirname, '../../libraries/node/package.json'));
  const directory = newDirectory();
  library('esbuild').buildSync({
    entryPoints: [path(file)],
    outfile: join(directory, 'index.js'),
    bundle: true,
    platform: 'node',
    target: 'node20',
    alias: { '@redeliver/handler': library.resolve('@redeliver/handler') },
    nodePaths: [path('../../libraries/node/node_modules')],
  });
  return directory;
}

/** A module of Python with the library beside it. */
function copied(file: string): string {
  const directory = newDirectory();
  cpSync(path(file), join(directory, basename(file)));
  const isSource = (source: string): boolean => basename(source) !== '__pycache__';
  cpSync(path('../../libraries/python/src/redeliver'), join(directory, 'redeliver'), { recursive: true, filter: isSource });
  return directory;
}

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'redeliver-function-'));
  process.once('exit', () => rmSync(directory, { recursive: true }));
  return directory;
}
