import { diffArrays } from 'diff';

/** What a template is made of. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

const NO_VALUE: Json = { Ref: 'AWS::NoValue' };

/** The parts of a template that depend on who is asked. */
export interface Template {
  readonly Resources: JsonObject;
  readonly Outputs: JsonObject;
}

/**
 * One template that is the first one if a condition holds, and else the second one. Both are of one app, so that what
 * is the same has the same logical id.
 *
 * @throws Error if a resource is another one in each of them.
 */
export function mergeTemplates(condition: string, on: Template, off: Template): Template {
  return {
    Resources: mergeEntities(condition, on.Resources, off.Resources),
    Outputs: mergeEntities(condition, on.Outputs, off.Outputs),
  };
}

/** Resources or outputs: what is in one template alone gets a condition. */
function mergeEntities(condition: string, on: JsonObject, off: JsonObject): JsonObject {
  const merged = keysOf(on, off).map((id): [string, Json] => {
    const [one, other] = [on[id], off[id]];
    if (one === undefined) {
      throw new Error(`${id} is there only if ${condition} does not hold, for which there is no condition`);
    }
    if (other === undefined) {
      const only = objectOf(one);
      return [id, { ...only, Condition: same(`${id}/Condition`, condition, only['Condition'] ?? condition) }];
    }
    return [id, mergeEntity(condition, id, objectOf(one), objectOf(other))];
  });
  return Object.fromEntries(merged);
}

/** Of an entity only values may depend on a condition; what it waits for may be missing where it is not there. */
function mergeEntity(condition: string, id: string, on: JsonObject, off: JsonObject): JsonObject {
  const members = keysOf(on, off).map((member): [string, Json] => {
    const [one, other] = [on[member], off[member]];
    switch (member) {
      case 'Properties':
        return [member, mergeMembers(condition, objectOf(one ?? {}), objectOf(other ?? {}))];
      case 'Value':
        return [member, mergeValues(condition, one ?? null, other ?? null)];
      case 'DependsOn':
        return [member, [...new Set([...listOf(one), ...listOf(other)])]];
      default:
        return [member, same(`${id}/${member}`, one, other)];
    }
  });
  return Object.fromEntries(members);
}

function mergeValues(condition: string, on: Json, off: Json): Json {
  if (equal(on, off)) {
    return on;
  }
  const [joined, otherJoined] = [joinedOf(on), joinedOf(off)];
  if (joined && otherJoined) {
    // All that is in one text alone is the empty text in the other.
    const parts = aligned(joined, otherJoined).flatMap(({ on, off, isCommon }) =>
      isCommon ? on : [ifElse(condition, textOf(on), textOf(off))],
    );
    return { 'Fn::Join': ['', parts] };
  }
  if (isList(on) && isList(off)) {
    return aligned(on, off).flatMap(({ on, off, isCommon }) => (isCommon ? on : inOneAlone(condition, on, off)));
  }
  if (isPlain(on) && isPlain(off)) {
    return mergeMembers(condition, on, off);
  }
  return ifElse(condition, on, off);
}

function mergeMembers(condition: string, on: JsonObject, off: JsonObject): JsonObject {
  const members = keysOf(on, off).map((name): [string, Json] => [
    name,
    mergeValues(condition, on[name] ?? NO_VALUE, off[name] ?? NO_VALUE),
  ]);
  return Object.fromEntries(members);
}

/** The elements of a list: a pair that differs is one element, so that a changed statement stays one statement. */
function inOneAlone(condition: string, on: readonly Json[], off: readonly Json[]): Json[] {
  return Array.from({ length: Math.max(on.length, off.length) }, (_, index) =>
    mergeValues(condition, on[index] ?? NO_VALUE, off[index] ?? NO_VALUE),
  );
}

function ifElse(condition: string, on: Json, off: Json): Json {
  return { 'Fn::If': [condition, on, off] };
}

interface Stretch {
  readonly on: Json[];
  readonly off: Json[];
  /** Whether both have it. */
  readonly isCommon: boolean;
}

/** Two lists side by side: what is in both, and the stretches between. */
function aligned(on: readonly Json[], off: readonly Json[]): Stretch[] {
  const stretches: Stretch[] = [];
  for (const { value, added, removed } of diffArrays([...off], [...on], { comparator: equal })) {
    const last = stretches.at(-1);
    if (!added && !removed) {
      stretches.push({ on: value, off: value, isCommon: true });
    } else if (last && !last.isCommon) {
      (added ? last.on : last.off).push(...value);
    } else {
      stretches.push({ on: added ? value : [], off: removed ? value : [], isCommon: false });
    }
  }
  return stretches;
}

/** The parts of a text that is put together without anything between them. */
function joinedOf(value: Json): readonly Json[] | undefined {
  const join = isObject(value) ? value['Fn::Join'] : undefined;
  return isList(join) && join[0] === '' && isList(join[1]) ? join[1] : undefined;
}

function textOf(parts: readonly Json[]): Json {
  const [only = '', ...others] = parts;
  return others.length === 0 ? only : { 'Fn::Join': ['', parts] };
}

function same(where: string, one: Json | undefined, other: Json | undefined): Json {
  if (one === undefined || other === undefined || !equal(one, other)) {
    throw new Error(`${where} is ${JSON.stringify(one)} in one template and ${JSON.stringify(other)} in the other`);
  }
  return one;
}

function keysOf(one: JsonObject, other: JsonObject): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])];
}

function listOf(value: Json | undefined): readonly Json[] {
  return value === undefined ? [] : isList(value) ? value : [value];
}

function objectOf(value: Json): JsonObject {
  if (!isObject(value)) {
    throw new Error(`not an object: ${JSON.stringify(value)}`);
  }
  return value;
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !isList(value);
}

/** An object of members, and none that CloudFormation takes for a value. */
function isPlain(value: Json): value is JsonObject {
  return isObject(value) && !Object.keys(value).some((name) => name === 'Ref' || name.startsWith('Fn::'));
}

function equal(one: Json, other: Json): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
