import type { Json, JsonObject } from '../template/merge';

type Parameters = Readonly<Record<string, string>>;

/** Returns a section as CloudFormation resolves it with these parameters: without conditions, with strings joined. */
export function resolveSection(section: Json, conditions: JsonObject, parameters: Parameters): Json | undefined {
  const resolve = (value: Json): Json | undefined => resolveSection(value, conditions, parameters);
  if (Array.isArray(section)) {
    return section.map(resolve).filter((element) => element !== undefined);
  }
  if (typeof section !== 'object' || section === null) {
    return section;
  }
  const { Ref: reference, 'Fn::If': choice, 'Fn::Join': join } = section as JsonObject;
  if (reference === 'AWS::NoValue') {
    return undefined;
  }
  if (Array.isArray(choice)) {
    const [name, on, off] = choice as [string, Json, Json];
    return resolve(holds({ Condition: name }, conditions, parameters) ? on : off);
  }
  if (Array.isArray(join) && join[0] === '') {
    return { 'Fn::Join': ['', joinParts((join[1] as Json[]).map(resolve))] };
  }
  const members = Object.entries(section).flatMap(([name, member]: [string, Json]): [string, Json][] => {
    if (isLeftOut(member, conditions, parameters)) {
      return [];
    }
    const value = resolve(member);
    return value === undefined ? [] : [[name, value]];
  });
  // The resolved resource has no condition, and no metadata if all metadata was conditional.
  const isGone = ([name, member]: [string, Json]): boolean => (name === 'Condition' && typeof member === 'string') || (name === 'Metadata' && JSON.stringify(member) === '{}');
  return Object.fromEntries(members.filter((member) => !isGone(member)));
}

/** Evaluates a condition's expression. */
export function holds(expression: Json, conditions: JsonObject, parameters: Parameters): boolean {
  const [[operator, operand]] = Object.entries(expression as JsonObject) as [[string, Json]];
  const all = operand as Json[];
  const each = (inner: Json): boolean => holds(inner, conditions, parameters);
  switch (operator) {
    case 'Condition':
      return each(conditions[operand as string] ?? null);
    case 'Fn::Not':
      return !each(all[0] ?? null);
    case 'Fn::And':
      return all.every(each);
    case 'Fn::Or':
      return all.some(each);
    case 'Fn::Equals': {
      const [left, right] = all.map((side) =>
        typeof side === 'string' ? side : parameters[(side as { Ref: string }).Ref],
      );
      return left === right;
    }
    default:
      throw new Error(`no condition: ${operator}`);
  }
}

function isLeftOut(member: Json, conditions: JsonObject, parameters: Parameters): boolean {
  const name = typeof member === 'object' && member !== null ? (member as JsonObject)['Condition'] : undefined;
  return typeof name === 'string' && name in conditions && !holds({ Condition: name }, conditions, parameters);
}

/** Flattens the parts of a string, drops empty parts and joins adjacent literals. */
function joinParts(parts: readonly (Json | undefined)[]): Json[] {
  const flat = parts.flatMap((part) => {
    const inner = (part as JsonObject | undefined)?.['Fn::Join'];
    return Array.isArray(inner) ? (inner[1] as Json[]) : part === undefined || part === '' ? [] : [part];
  });
  return flat.reduce<Json[]>((joined, part) => {
    const last = joined.at(-1);
    const isText = typeof last === 'string' && typeof part === 'string';
    return isText ? [...joined.slice(0, -1), last + part] : [...joined, part];
  }, []);
}
