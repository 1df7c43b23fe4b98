import * as lambda from 'aws-cdk-lib/aws-lambda';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The smallest thing that is an ELF file of an architecture: no test needs the real, slowly built one. */
export function writeFakeBundles(directory: string, architecture = lambda.Architecture.ARM_64): void {
  const header = Buffer.alloc(20);
  header.write('\x7fELF', 'latin1');
  header.writeUInt16LE(architecture.name === lambda.Architecture.ARM_64.name ? 0xb7 : 0x3e, 18);
  for (const name of ['message-processor', 'failed-message-processor', 'final-dlq-annotator', 'async-retry-handler']) {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, 'bootstrap'), header, { mode: 0o755 });
  }
}

/** What the CDK's command line gives the app. */
export function cdkJson(): { context: Record<string, unknown> } {
  return JSON.parse(readFileSync(join(__dirname, '../cdk.json'), 'utf8'));
}
