import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

import { Redeliver, type RedeliverProps, Target } from '../lib/index';
import { cdkJson, writeFakeBundles } from './fakes';

/** Creates bundles that are removed after the test file has run. */
export function fakeBundles(architecture: lambda.Architecture = lambda.Architecture.ARM_64): string {
  const directory = temporaryDirectory();
  writeFakeBundles(directory, architecture);
  return directory;
}

/** Creates a directory that is removed after the test file has run. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'redeliver-test-'));
  after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export const HTTP: RedeliverProps = { target: Target.http('https://orders.example.com/hook') };

/** Creates a stack that contains the construct. */
export function stackWith(props: (stack: Stack) => RedeliverProps): { stack: Stack; redeliver: Redeliver } {
  const app = new App({ context: cdkJson().context });
  const stack = new Stack(app, 'Test');
  return { stack, redeliver: new Redeliver(stack, 'Retries', { bundles: fakeBundles(), ...props(stack) }) };
}

export function templateWith(props: (stack: Stack) => RedeliverProps): Template {
  return Template.fromStack(stackWith(props).stack);
}

export interface Resource {
  readonly Type: string;
  readonly Properties: Record<string, any>;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
}

/** Returns the only resource with this type and name. */
export function namedResource(template: Template, type: string, property: string, name: string): Resource {
  const found = Object.values(template.findResources(type, { Properties: { [property]: name } }));
  if (found.length !== 1) {
    throw new Error(`${found.length} resources of type ${type} with ${property} ${name}`);
  }
  return found[0] as Resource;
}
