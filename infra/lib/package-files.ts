import { existsSync } from 'node:fs';
import { join } from 'node:path';

const HERE = join(__dirname, '..');
const FUNCTIONS = join(HERE, 'functions');
/** As npm and pip install it; else this is the repository. */
export const IS_PACKAGE = existsSync(FUNCTIONS);

/** The JSON schema of policies. A package has all that it needs inside. */
export const POLICY_SCHEMA = join(HERE, ...(IS_PACKAGE ? [] : ['..']), 'schemas/retry-policy.schema.json');

/** Where our functions' bundles for an architecture are. */
export function functionsFor(architecture: string): string {
  return IS_PACKAGE ? join(FUNCTIONS, architecture) : join(HERE, '../target/lambda');
}
