// The rules that all languages share; see schemas/vectors/README.md.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Strategy } from '../lib/index';
import type { PolicyDocument } from '../lib/policy';

/** A policy document with either its meaning or its violations. */
export type PolicyVector = { readonly name: string; readonly document: PolicyDocument } & (
  | { readonly accepted: Accepted; readonly refused?: never }
  | { readonly refused: readonly string[]; readonly accepted?: never }
);

export interface Accepted {
  readonly means: PolicyDocument & Required<Pick<PolicyDocument, 'max_attempts' | 'backoff' | 'long_delays'>>;
  readonly worst_case_span_seconds: number;
  readonly least_retention_seconds: number | null;
}

export interface BackoffVector {
  readonly name: string;
  readonly policy: PolicyDocument;
  /** Delays by retry number. */
  readonly longest_seconds: Readonly<Record<string, number>>;
}

export interface QueuesVector {
  readonly name: string;
  readonly strategy: `${Strategy}` | 'async-retry';
  readonly policy: PolicyDocument;
  readonly queues: Readonly<Record<string, { readonly retention_seconds: number; readonly max_receive_count?: number; readonly dead_letter_queue?: string }>>;
}

export interface StrategyVector {
  readonly name: string;
  readonly strategy: QueuesVector['strategy'];
  readonly policy: PolicyDocument;
  readonly refused: readonly string[];
}

export interface PatternVector {
  readonly name: string;
  readonly schema: object;
  readonly refused: string | null;
}

export interface SecretParameterVector {
  readonly url: string;
  readonly parameter: string | null;
}

/** The longest call in the vectors. */
export const CALL_SECONDS = 60;

/** A document is given as a string if the notation of its numbers matters. */
export const POLICIES: readonly PolicyVector[] = readVectors('policies').map(({ text, ...vector }: any) =>
  text === undefined ? vector : { ...vector, document: JSON.parse(text) },
);
export const BACKOFFS: readonly BackoffVector[] = readVectors('backoff');
export const PATTERNS: readonly PatternVector[] = readVectors('patterns');
export const QUEUES: readonly QueuesVector[] = readVectors('queues');
export const SECRET_PARAMETERS: readonly SecretParameterVector[] = readVectors('secret-parameters');
export const STRATEGY_POLICIES: readonly StrategyVector[] = readVectors('strategies');

function readVectors(name: string): any {
  return JSON.parse(readFileSync(join(__dirname, `../../schemas/vectors/${name}.json`), 'utf8'));
}
