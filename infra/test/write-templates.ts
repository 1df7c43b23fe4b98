// Writes the templates of all variants, and the parameterized templates, to a directory for cfn-lint.

import * as lambda from 'aws-cdk-lib/aws-lambda';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ownFunctionTemplateFile } from '../template/own-function';
import { orderedTemplateFile } from '../template/ordered';
import { templateFile } from '../template/template';
import { writeFakeBundles } from './fakes';
import { VARIANT_NAMES, variant } from './stack-variants';

const [directory] = process.argv.slice(2);
if (directory === undefined) {
  throw new Error('usage: write-templates.ts DIRECTORY');
}
mkdirSync(directory, { recursive: true });
const bundles = mkdtempSync(join(tmpdir(), 'redeliver-bundles-'));
try {
  writeFakeBundles(bundles);
  for (const name of VARIANT_NAMES) {
    const template = variant(name, bundles).app.synth().getStackByName(name).template;
    writeFileSync(join(directory, `${name}.json`), JSON.stringify(template, undefined, 2));
  }
  const from = { architecture: lambda.Architecture.ARM_64, bundles };
  writeFileSync(join(directory, 'parameters.yaml'), templateFile(from));
  writeFileSync(join(directory, 'own-function.yaml'), ownFunctionTemplateFile(from));
  writeFileSync(join(directory, 'ordered.yaml'), orderedTemplateFile(from));
} finally {
  rmSync(bundles, { recursive: true });
}
