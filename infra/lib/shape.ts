import { Construct } from 'constructs';

import { nearest } from './nearest';

/** What is wrong with a value, a sentence each, where it stands under this name. */
export type Check = (value: unknown, name: string) => string[];
/** Of a prop that must be there. */
export type Needed = Check & { readonly isNeeded: true };
/** A check for each prop of a type: without one for each, or with one for what is none, it does not compile. */
export type Shape<T> = { readonly [K in keyof T]-?: undefined extends T[K] ? Check : Needed };

/** An object with these members and no other. */
export function members(shape: Record<string, Check>, owner: string): Check {
  return (value, name) => {
    if (!isPlain(value)) {
      return [`${name || 'props'} is ${inWords(value)}; give ${signature(shape)}.`];
    }
    const path = (member: string): string => (name === '' ? member : `${name}.${member}`);
    const known = Object.keys(shape);
    const unknown = Object.keys(value).filter((member) => !known.includes(member));
    const meant = unknown.map((member) => nearest(member, known));
    return [
      ...unknown.map((member, index) => {
        const near = meant[index];
        const instead = near === undefined ? `there are ${known.join(', ')}.` : `did you mean ${path(near)}?`;
        return `${path(member)} is no prop of ${owner}; ${instead}`;
      }),
      ...Object.entries(shape)
        .filter(([member, check]) => value[member] !== undefined || ('isNeeded' in check && !meant.includes(member)))
        .flatMap(([member, check]) => check(value[member], path(member))),
    ];
  };
}

export function needed(check: Check): Needed {
  return Object.assign(check.bind(undefined), { isNeeded: true as const });
}

export const text = such((value) => typeof value === 'string', 'a string');
export const number = such((value) => typeof value === 'number', 'a number');
export const flag = such((value) => typeof value === 'boolean', 'true or false');
export const object = such(isPlain, 'an object');
// By a member: an instance may be of another copy of the CDK.
export const duration = having('toMilliseconds', 'a Duration');

/** What a factory of a class of ours has made, by what was given to it. */
export function made<G>(factories: readonly string[], check: (given: G, name: string) => string[]): Check {
  return (value, name) =>
    typeof value === 'object' && value !== null && '_given' in value
      ? check(value._given as G, name)
      : [`${name} is ${inWords(value)}; give ${alternatives(factories)}.`];
}

/** One of these texts. */
export function oneOf(names: readonly string[]): Check {
  return (value, name) => {
    const given = typeof value === 'string' ? `"${value}"` : inWords(value);
    return names.some((choice) => choice === value) ? [] : [`${name} is ${given}; use ${alternatives(names)}.`];
  };
}

export function listOf(check: Check, wanted: string): Check {
  return (value, name) =>
    Array.isArray(value) ? value.flatMap((item, index) => check(item, `${name}[${index}]`)) : [`${name} is ${inWords(value)}; give ${wanted}.`];
}

export function having(member: string, wanted: string): Check {
  return such((value) => typeof value === 'object' && value !== null && member in value, wanted);
}

export function such(is: (value: unknown) => boolean, wanted: string): Check {
  return (value, name) => (is(value) ? [] : [`${name} is ${inWords(value)}; give ${wanted}.`]);
}

/** An object of members, not one of the CDK's constructs. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !Construct.isConstruct(value);
}

/** What a value is, and never the value itself: it may be a secret. */
export function inWords(value: unknown): string {
  if (value === undefined) {
    return 'missing';
  }
  if (value === null) {
    return 'null';
  }
  if (Construct.isConstruct(value)) {
    return `the construct ${value.node.path}`;
  }
  const type = Array.isArray(value) ? 'list' : typeof value;
  return `${type === 'object' ? 'an' : 'a'} ${type}`;
}

/** The members that a shape must have; if there is none, those that it may have. */
export function signature(shape: Record<string, Check>): string {
  const needed = Object.keys(shape).filter((member) => 'isNeeded' in (shape[member] as Check));
  return `{ ${(needed.length > 0 ? needed : Object.keys(shape)).join(', ')} }`;
}

export function alternatives(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}
