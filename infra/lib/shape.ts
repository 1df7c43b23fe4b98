import { Construct } from 'constructs';

import { nearest } from './nearest';

/** A check that returns the problems with a value, one sentence each, given the value's name. */
export type Check = (value: unknown, name: string) => string[];
/** The check of a required prop. */
export type NeededCheck = Check & { readonly isNeeded: true };
/** A check for each prop of a type: a missing or additional check does not compile. */
export type Shape<T> = { readonly [K in keyof T]-?: undefined extends T[K] ? Check : NeededCheck };

/** Returns a check for an object with these members and no others. */
export function members(shape: Record<string, Check>, owner: string): Check {
  return (value, name) => {
    if (!isPlain(value)) {
      return [`${name || 'props'} is ${describeType(value)}; give ${signature(shape)}.`];
    }
    const path = (member: string): string => (name === '' ? member : `${name}.${member}`);
    const known = Object.keys(shape);
    const unknown = Object.keys(value).filter((member) => !known.includes(member));
    const nearestKnown = unknown.map((member) => nearest(member, known));
    return [
      ...unknown.map((member, index) => {
        const near = nearestKnown[index];
        const instead = near === undefined ? `the props are ${known.join(', ')}.` : `did you mean ${path(near)}?`;
        return `${path(member)} is not a prop of ${owner}; ${instead}`;
      }),
      ...Object.entries(shape)
        .filter(([member, check]) => value[member] !== undefined || ('isNeeded' in check && !nearestKnown.includes(member)))
        .flatMap(([member, check]) => check(value[member], path(member))),
    ];
  };
}

export function needed(check: Check): NeededCheck {
  return Object.assign(check.bind(undefined), { isNeeded: true as const });
}

export const text = satisfying((value) => typeof value === 'string', 'a string');
export const number = satisfying((value) => typeof value === 'number', 'a number');
export const flag = satisfying((value) => typeof value === 'boolean', 'true or false');
export const object = satisfying(isPlain, 'an object');
// Recognized by a member, since the instance may be from another copy of the CDK.
export const duration = withMember('toMilliseconds', 'a Duration');

/** Returns a check for an instance created by one of our factories, based on the factory's arguments. */
export function fromFactory<G>(factories: readonly string[], check: (given: G, name: string) => string[]): Check {
  return (value, name) =>
    typeof value === 'object' && value !== null && '_given' in value
      ? check(value._given as G, name)
      : [`${name} is ${describeType(value)}; give ${alternatives(factories)}.`];
}

/** Returns a check for one of these strings. */
export function oneOf(names: readonly string[]): Check {
  return (value, name) => {
    const given = typeof value === 'string' ? `"${value}"` : describeType(value);
    return names.some((choice) => choice === value) ? [] : [`${name} is ${given}; use ${alternatives(names)}.`];
  };
}

export function listOf(check: Check, wanted: string): Check {
  return (value, name) =>
    Array.isArray(value) ? value.flatMap((item, index) => check(item, `${name}[${index}]`)) : [`${name} is ${describeType(value)}; give ${wanted}.`];
}

export function withMember(member: string, wanted: string): Check {
  return satisfying((value) => typeof value === 'object' && value !== null && member in value, wanted);
}

export function satisfying(is: (value: unknown) => boolean, wanted: string): Check {
  return (value, name) => (is(value) ? [] : [`${name} is ${describeType(value)}; give ${wanted}.`]);
}

/** Returns true for an object that is neither a list nor a construct. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !Construct.isConstruct(value);
}

/** Describes the type of a value for error messages, but never the value itself, which may be a secret. */
export function describeType(value: unknown): string {
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

/** Returns the required members of a shape, or all members if none are required. */
export function signature(shape: Record<string, Check>): string {
  const needed = Object.keys(shape).filter((member) => 'isNeeded' in (shape[member] as Check));
  return `{ ${(needed.length > 0 ? needed : Object.keys(shape)).join(', ')} }`;
}

export function alternatives(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}
