import { existsSync } from 'node:fs';
import { join } from 'node:path';

const HERE = join(__dirname, '..');
const FUNCTIONS = join(HERE, 'functions');
/** True in a package installed by npm or pip, false in the repository. */
export const IS_PACKAGE = existsSync(FUNCTIONS);

/** The JSON Schema of policies. */
export const POLICY_SCHEMA = join(HERE, ...(IS_PACKAGE ? [] : ['..']), 'schemas/retry-policy.schema.json');

/** Returns the directory of our functions' bundles for an architecture. */
export function functionsFor(architecture: string): string {
  return IS_PACKAGE ? join(FUNCTIONS, architecture) : join(HERE, '../target/lambda');
}
