// JSON as it stands in a text: members with their own texts, also if one stands twice, and numbers as they are written.

/** Objects and arrays inside one another, the outermost included. */
export const NESTING_MAX = 128;

/** A member of an object, or an element of an array: then its name is its index. */
export interface Child {
  readonly name: string;
  /** The value's text, without white space around it. */
  readonly text: string;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The members of the object that a text is; none if it is no object. */
export function members(text: string): readonly Child[] | undefined {
  return /^[ \t\n\r]*\{/.test(text) && isJson(text) ? childrenOf(text.trim()) : undefined;
}

/** The last member of that name. */
export function member(of: readonly Child[], name: string): string | undefined {
  return of.findLast((child) => child.name === name)?.text;
}

export function hasTwice(children: readonly Child[]): boolean {
  return new Set(children.map(({ name }) => name)).size < children.length;
}

/** What stands in an object or in an array; nothing in other values. The text must be JSON, without space around it. */
export function childrenOf(text: string): readonly Child[] {
  if (text[0] !== '{' && text[0] !== '[') {
    return [];
  }
  const children: Child[] = [];
  let at = afterSpace(text, 1);
  while (text[at] !== '}' && text[at] !== ']') {
    let name = String(children.length);
    if (text[0] === '{') {
      const end = endOfString(text, at);
      name = JSON.parse(text.slice(at, end)) as string;
      // After the colon.
      at = afterSpace(text, afterSpace(text, end) + 1);
    }
    const end = endOfValue(text, at);
    children.push({ name, text: text.slice(at, end) });
    at = afterSpace(text, end);
    at = text[at] === ',' ? afterSpace(text, at + 1) : at;
  }
  return children;
}

/** By the brackets outside strings; whether they match is the parser's business. */
export function nestsTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') {
      at = endOfString(text, at) - 1;
    } else if (character === '{' || character === '[') {
      depth += 1;
      if (depth > NESTING_MAX) {
        return true;
      }
    } else if (character === '}' || character === ']') {
      depth = Math.max(0, depth - 1);
    }
  }
  return false;
}

/** A string that UTF-8 can hold: a lone surrogate can be escaped in JSON, and stand in no text of another language. */
export function stringOf(text: string | undefined): string | undefined {
  const value: unknown = text?.startsWith('"') ? JSON.parse(text) : undefined;
  return typeof value === 'string' && value.isWellFormed() ? value : undefined;
}

/** A number that is written in digits. */
export function digitsOf(text: string | undefined, max: number): number | undefined {
  const value = text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
  return value !== undefined && value <= max ? value : undefined;
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (' \t\n\r'.includes(text[at] ?? 'x')) {
    at += 1;
  }
  return at;
}

/** The place after the quote that ends it; the text's end if none does. */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0;
    while (text[quote - 1 - escapes] === '\\' && quote - 1 - escapes > from) {
      escapes += 1;
    }
    if (escapes % 2 === 0) {
      return quote + 1;
    }
  }
  return text.length;
}

function endOfValue(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') {
      at = endOfString(text, at) - 1;
    } else if (character === '{' || character === '[') {
      depth += 1;
    } else if (depth === 0 && ' \t\n\r,]}'.includes(character)) {
      return at;
    } else if (character === '}' || character === ']') {
      depth -= 1;
    }
    if (depth === 0 && '"}]'.includes(text[at] as string)) {
      return at + 1;
    }
  }
  return text.length;
}
