// Writes the API's reference from what jsii has compiled: api.ts ASSEMBLY PAGE

import { readFileSync, writeFileSync } from 'node:fs';

interface Docs {
  readonly summary?: string;
  readonly remarks?: string;
}
interface TypeRef {
  readonly primitive?: string;
  readonly fqn?: string;
  readonly collection?: { readonly kind: string; readonly elementtype: TypeRef };
}
interface Member {
  readonly name: string;
  readonly docs?: Docs;
  readonly type?: TypeRef;
  readonly optional?: boolean;
  readonly static?: boolean;
  readonly protected?: boolean;
  readonly overrides?: string;
  readonly const?: boolean;
}
interface Method extends Member {
  readonly parameters?: readonly Member[];
}
interface Type {
  readonly name: string;
  readonly kind: 'class' | 'interface' | 'enum';
  readonly docs?: Docs;
  readonly base?: string;
  readonly interfaces?: readonly string[];
  readonly initializer?: unknown;
  readonly methods?: readonly Method[];
  readonly properties?: readonly Member[];
  readonly members?: readonly Member[];
}

const [assembly, page] = process.argv.slice(2);
if (assembly === undefined || page === undefined) {
  throw new Error('usage: api.ts ASSEMBLY PAGE');
}
const { types } = JSON.parse(readFileSync(assembly, 'utf8')) as { types: Record<string, Type> };
const all = Object.values(types);
/** In the order in which somebody reads them. */
const FIRST = ['Redeliver', 'AsyncRetry', 'RedeliverProps', 'AsyncRetryProps', 'CommonProps', 'Target', 'RetryPolicy', 'Backoff', 'Jitter', 'CircuitBreaker', 'SourceQueue'];
const rank = ({ name }: Type): string => (FIRST.includes(name) ? String(FIRST.indexOf(name)).padStart(2, '0') : name);
const sorted = [...all].sort((one, other) => (rank(one) < rank(other) ? -1 : 1));

const text = `# The construct's API

Made by \`cargo xtask dist construct\` from the sources; do not edit. In Python the module is \`redeliver_cdk\`, members are
in snake_case (\`max_attempts\`), and what is an object of options here are keyword arguments. In TypeScript the package is
\`@redeliver/cdk\`. [How to install and use it](deploy/cdk.md).

${sorted.map(section).join('\n')}`;
writeFileSync(page, text);

function section(type: Type): string {
  return [`## ${type.name}`, '', told(type.docs), '', ...rows(type), ''].filter((line, index, lines) => line !== '' || lines[index - 1] !== '').join('\n');
}

function rows(type: Type): string[] {
  if (type.kind === 'enum') {
    return table('value', '', (type.members ?? []).map(({ name, docs }) => [`\`${type.name}.${name}\``, told(docs)]));
  }
  const properties = (type.properties ?? []).filter((member) => !member.overrides);
  const constants = properties.filter((member) => member.static).map(({ name, docs }): Row => [`\`${type.name}.${name}\``, told(docs)]);
  const factories = (type.methods ?? []).filter((method) => method.static && !method.overrides && method.name !== 'isConstruct').map(factory(type));
  const members = properties.filter((member) => !member.static);
  const methods = (type.methods ?? []).filter((method) => !method.static && !method.overrides);
  return [
    ...table('make it with', '', [...constants, ...factories]),
    ...table(
      type.kind === 'interface' ? 'option' : 'member',
      'type',
      members.map(({ name, type: of, optional, docs }) => [`\`${name}\`${optional || type.kind === 'class' ? '' : ' (required)'}`, shown(of), told(docs)]),
    ),
    ...table('method', '', methods.map(({ name, docs }) => [`\`${name}()\``, told(docs)])),
    ...inherited(type).map((base) => `And the options of [${base}](#${base.toLowerCase()}).`),
  ];
}

function factory(type: Type): (method: Method) => Row {
  return ({ name, parameters = [], docs }) => {
    const given = parameters.map((parameter) => `${parameter.name}${parameter.optional ? '?' : ''}`).join(', ');
    const options = parameters.map(({ name: parameter, type: of, docs: its }) => {
      const what = [shown(of), told(its)].filter((part) => part !== '').join(': ');
      return `\`${parameter}\` is ${what}`;
    });
    return [`\`${type.name}.${name}(${given})\``, [told(docs), ...options].join(' · ')];
  };
}

type Row = readonly string[];

function table(first: string, second: string, lines: readonly Row[]): string[] {
  if (lines.length === 0) {
    return [];
  }
  const heads = [first, ...(second === '' ? [] : [second]), ''];
  return ['', `| ${heads.join(' | ')} |`, `|${' --- |'.repeat(heads.length)}`, ...lines.map((cells) => `| ${cells.join(' | ')} |`), ''];
}

/** The structs of ours that a struct has all members of. */
function inherited({ interfaces = [], kind }: Type): string[] {
  return kind === 'interface' ? interfaces.flatMap((fqn) => types[fqn]?.name ?? []) : [];
}

function told(docs: Docs | undefined): string {
  return [docs?.summary, docs?.remarks].filter((part) => part !== undefined).join(' ').replace(/\s+/g, ' ').replace(/\|/g, '\\|').trim();
}

function shown(type: TypeRef | undefined): string {
  if (type?.collection) {
    const element = shown(type.collection.elementtype);
    return type.collection.kind === 'array' ? `list of ${element}` : `${element} by name`;
  }
  if (type?.fqn === undefined) {
    return type?.primitive ?? '';
  }
  const name = types[type.fqn]?.name;
  return name === undefined ? `\`${type.fqn.split('.').slice(-1).join()}\`` : `[${name}](#${name.toLowerCase()})`;
}
