/**
 * Finds regular expressions in a JSON Schema that JavaScript accepts but the functions reject at startup: their engine
 * never backtracks, and limits the size of a compiled pattern.
 */

/** The engine's limit: `size_limit` of the Rust crate regex. */
const COMPILED_BYTES_MAX = 10 * 1024 * 1024;

/**
 * The size of a compiled part in bytes, measured with the engine and rounded up. A pattern near the limit may be
 * rejected here although the functions would accept it, but never the other way round.
 */
const BYTES = { character: 48, branch: 80, ascii: 160, beyondAscii: 200, space: 800, negated: 1_100, notSpace: 2_300, property: 56_000, nextProperty: 10_000 };

/** Keywords whose members are schemas by name. */
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'];
/** Keywords whose values are data, not schemas. */
const DATA = ['const', 'enum', 'default', 'examples'];

const CHARACTER = String.raw`\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|k<[^>]*>|[1-9][0-9]*|[^])|[^]`;
const IN_CLASS = new RegExp(CHARACTER, 'gu');
const TOKEN = new RegExp(String.raw`\[(?:\\[^]|[^\]\\])*\]|\(\?(?:<?[=!]|<[^>]*>|[a-z-]*:)|\{\d+(?:,\d*)?\}\??|[*+?]\??|${CHARACTER}`, 'gu');

/** The sentence for each token that the engine does not support: the problem and the remedy. */
const UNSUPPORTED: readonly (readonly [token: RegExp, sentence: string])[] = [
  [/^\(\?<?[=!]/u, 'has look-around, which the functions do not support; write (?!x) as "not": {"pattern": "^x"}'],
  [/^\\[1-9k]/u, 'has a back-reference, which the functions do not support; write out the alternatives'],
  [/^\[?\\0/u, String.raw`has \0, which the functions do not support; write \x00`],
  [/^\[\^?\]/u, String.raw`has an empty class, which the functions do not support; write [\s\S] for any character`],
  [/^\[\\b/u, String.raw`has \b in a class, which the functions do not support; write \x08`],
  [/^\[?\\u[dD][89A-Fa-f]/u, String.raw`has a surrogate, which the functions do not support; write it as \u{1F600}`],
];
const TOO_LARGE = 'takes more than 10 MiB when it is compiled, which the functions refuse; write long counts as maxLength';

/** Returns problems with a schema's patterns, with the JSON Pointer, the rule and the remedy. */
export function patternProblems(schema: unknown): string[] {
  return [...patterns(schema, '', false)].flatMap(([pointer, pattern]) => {
    const problem = patternProblem(pattern);
    return problem === undefined ? [] : [`${pointer} ${problem}`];
  });
}

/** Yields the patterns of a schema with their JSON Pointers. */
function* patterns(schema: unknown, pointer: string, isMap: boolean): Generator<[pointer: string, pattern: string]> {
  if (typeof schema !== 'object' || schema === null) {
    return;
  }
  for (const [name, value] of Object.entries(schema)) {
    const at = `${pointer}/${escapeName(name)}`;
    if (!isMap && DATA.includes(name)) {
      continue;
    }
    if (!isMap && name === 'pattern' && typeof value === 'string') {
      yield [at, value];
    }
    if (!isMap && name === 'patternProperties') {
      yield* Object.keys(value).map((key): [string, string] => [`${at}/${escapeName(key)}`, key]);
    }
    yield* patterns(value, at, !isMap && MAPS.includes(name));
  }
}

function escapeName(name: string): string {
  return name.replace(/~/g, '~0').replace(/\//g, '~1');
}

function patternProblem(pattern: string): string | undefined {
  const tokens = pattern.match(TOKEN) ?? [];
  const inClasses = tokens.flatMap((token) => members(token).map((member) => `[${member}`));
  const unsupported = UNSUPPORTED.find(([wrong]) => [...tokens, ...inClasses].some((token) => wrong.test(token)));
  return unsupported?.[1] ?? (compiledBytes(tokens) > COMPILED_BYTES_MAX ? TOO_LARGE : undefined);
}

/** Returns the members of a character class, or an empty list for other tokens. */
function members(token: string): readonly string[] {
  return /^\[.+\]$/su.test(token) ? (token.slice(1, -1).match(IN_CLASS) ?? []) : [];
}

/** Returns the size of a compiled pattern, rounded up. */
function compiledBytes(tokens: readonly string[]): number {
  // The parts of each open group; the last part may be repeated.
  const groups: number[][] = [[]];
  for (const token of tokens) {
    const parts = groups.at(-1) ?? [];
    const count = /^\{(\d+),?(\d*)\}/u.exec(token);
    if (token.startsWith('(')) {
      groups.push([]);
    } else if (token === ')' && groups.length > 1) {
      groups.pop();
      groups.at(-1)?.push(sum(parts) + 2 * BYTES.branch);
    } else if (count !== null) {
      const copies = Math.max(Number(count[1]), Number(count[2]));
      parts.push(copies * ((parts.pop() ?? 0) + BYTES.branch));
    } else {
      parts.push(/^[*+?|]/u.test(token) ? BYTES.branch : tokenBytes(token));
    }
  }
  return sum(groups.flat());
}

function tokenBytes(token: string): number {
  const inClass = members(token);
  if (inClass.length === 0) {
    return token === '.' ? BYTES.negated : characterBytes(token);
  }
  const properties = inClass.filter(isPropertyEscape);
  const others = inClass.filter((member) => !isPropertyEscape(member) && characterBytes(member) >= BYTES.beyondAscii);
  const ranges = others.length > 0 ? inClass.filter((member) => member === '-') : [];
  return (
    BYTES.ascii +
    sum(others.map(characterBytes)) +
    BYTES.negated * (ranges.length + (inClass[0] === '^' ? 1 : 0)) +
    (properties.length > 0 ? BYTES.property + (properties.length - 1) * BYTES.nextProperty : 0)
  );
}

/** Returns the size of a character, or of an escape for a character class. */
function characterBytes(character: string): number {
  if (isPropertyEscape(character)) {
    return BYTES.property;
  }
  switch (character) {
    case '\\D':
    case '\\W':
      return BYTES.negated;
    case '\\S':
      return BYTES.notSpace;
    case '\\s':
      return BYTES.space;
    case '\\d':
    case '\\w':
      return BYTES.ascii;
    default:
      return /^(?:[\x00-\x7f]|\\[^ux])$/u.test(character) ? BYTES.character : BYTES.beyondAscii;
  }
}

function isPropertyEscape(character: string): boolean {
  return /^\\[pP]/u.test(character);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
