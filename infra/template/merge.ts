import { diffArrays } from 'diff';

/** A JSON value of a template. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

export const NO_VALUE: Json = { Ref: 'AWS::NoValue' };

/** The parts of a template that differ between variants. */
export interface Template {
  /** The construct's own conditions, for example on the region. */
  readonly Conditions: JsonObject;
  readonly Resources: JsonObject;
  readonly Outputs: JsonObject;
}

/**
 * Merges two templates of one app into a template that equals `on` if the condition holds and `off` otherwise. Entities
 * are matched by logical id. `opposite` is the name of the condition that holds if `condition` does not.
 *
 * @throws Error if an entity differs in more than its values, or exists only in `off` without `opposite`.
 */
export function mergeTemplates(condition: string, on: Template, off: Template, opposite?: string): Template {
  return {
    Conditions: { ...off.Conditions, ...on.Conditions },
    Resources: mergeEntities(condition, on.Resources, off.Resources, opposite),
    Outputs: mergeEntities(condition, on.Outputs, off.Outputs, opposite),
  };
}

/** Merges resources or outputs. An entity that exists on one side only gets that side's condition. */
function mergeEntities(condition: string, on: JsonObject, off: JsonObject, opposite?: string): JsonObject {
  const merged = keysOf(on, off).map((id): [string, Json] => {
    const [one, other] = [on[id], off[id]];
    if (one !== undefined && other !== undefined) {
      return [id, mergeEntity(condition, id, objectOf(one), objectOf(other))];
    }
    const side = one === undefined ? opposite : condition;
    if (side === undefined) {
      throw new Error(`${id} exists only if ${condition} does not hold, which no condition expresses`);
    }
    const only = objectOf(one ?? other ?? null);
    return [id, { ...only, Condition: requireSame(`${id}/Condition`, side, only['Condition'] ?? side) }];
  });
  return Object.fromEntries(merged);
}

/**
 * Merges an entity, of which only the values may depend on the condition. `DependsOn` must not refer to an entity with
 * a condition (cfn-lint's E3005).
 */
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
        return [member, requireSame(`${id}/${member}`, one, other)];
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
    // A part that is missing on one side becomes an empty string there.
    const parts = alignLists(joined, otherJoined).flatMap(({ on, off, isCommon }) =>
      isCommon ? on : [ifElse(condition, textOf(on), textOf(off))],
    );
    return { 'Fn::Join': ['', parts] };
  }
  if (isList(on) && isList(off)) {
    return alignLists(on, off).flatMap(({ on, off, isCommon }) => (isCommon ? on : mergePairs(condition, on, off)));
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

/** Merges differing elements pairwise, so that a changed statement stays one statement. */
function mergePairs(condition: string, on: readonly Json[], off: readonly Json[]): Json[] {
  return Array.from({ length: Math.max(on.length, off.length) }, (_, index) =>
    mergeValues(condition, on[index] ?? NO_VALUE, off[index] ?? NO_VALUE),
  );
}

export function ifElse(condition: string, on: Json, off: Json): Json {
  return { 'Fn::If': [condition, on, off] };
}

interface Stretch {
  readonly on: Json[];
  readonly off: Json[];
  /** True if both lists contain the stretch. */
  readonly isCommon: boolean;
}

/** Aligns two lists, and returns the common stretches and the differing stretches between them. */
function alignLists(on: readonly Json[], off: readonly Json[]): Stretch[] {
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

/** Returns the parts of a string that is joined without a separator. */
function joinedOf(value: Json): readonly Json[] | undefined {
  const join = isObject(value) ? value['Fn::Join'] : undefined;
  return isList(join) && join[0] === '' && isList(join[1]) ? join[1] : undefined;
}

function textOf(parts: readonly Json[]): Json {
  const [only = '', ...others] = parts;
  return others.length === 0 ? only : { 'Fn::Join': ['', parts] };
}

function requireSame(where: string, one: Json | undefined, other: Json | undefined): Json {
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

/** Returns true for an object that is not an intrinsic function. */
function isPlain(value: Json): value is JsonObject {
  return isObject(value) && !Object.keys(value).some((name) => name === 'Ref' || name.startsWith('Fn::'));
}

function equal(one: Json, other: Json): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
