import * as lambda from 'aws-cdk-lib/aws-lambda';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes programs that consist of the smallest valid ELF header, since building the real programs is slow. */
export function writeFakeBundles(directory: string, architecture = lambda.Architecture.ARM_64): void {
  const header = Buffer.alloc(20);
  header.write('\x7fELF', 'latin1');
  header.writeUInt16LE(architecture.name === lambda.Architecture.ARM_64.name ? 0xb7 : 0x3e, 18);
  for (const name of ['message-processor', 'failed-message-processor', 'final-dlq-annotator', 'async-retry-handler']) {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, 'bootstrap'), header, { mode: 0o755 });
  }
}

/** Returns the context that the CDK's command line passes to the app. */
export function cdkJson(): { context: Record<string, unknown> } {
  return JSON.parse(readFileSync(join(__dirname, '../cdk.json'), 'utf8'));
}
