import { Token } from 'aws-cdk-lib';
import { Envelope } from './choices';
import type { RedeliverProps } from './props';
import { schemaProblems } from './schemas';

/** The props that determine which messages are accepted. */
export type MessageProps = Pick<
  RedeliverProps,
  'dataSchema' | 'envelope' | 'messageIdAttribute' | 'messageIdPointer' | 'bodySchema'
>;

/** The file names of the user's schemas in a bundle or a layer. Our functions run in the bundle's directory. */
const DATA_SCHEMA_FILE = 'data.schema.json';
const BODY_SCHEMA_FILE = 'body.schema.json';
/** Props that only apply to messages without an envelope. */
const WITHOUT_ENVELOPE = ['messageIdAttribute', 'messageIdPointer', 'bodySchema'] as const;
/** Attributes that redeliver itself writes. */
const RESERVED = ['Failure', 'Redeliver'];

/** Returns the schemas for a function's package: paths by file name. */
export function schemaFiles({ dataSchema, bodySchema }: MessageProps): Readonly<Record<string, string>> {
  return {
    ...(dataSchema !== undefined && { [DATA_SCHEMA_FILE]: dataSchema }),
    ...(bodySchema !== undefined && { [BODY_SCHEMA_FILE]: bodySchema }),
  };
}

/**
 * Returns the environment variables of each function that reads messages.
 *
 * @param directory the schemas' directory, if it is not the working directory.
 */
export function messageEnvironment(props: MessageProps, directory = ''): Record<string, string> {
  const { envelope, messageIdAttribute, messageIdPointer } = props;
  return {
    ...(props.dataSchema !== undefined && { DATA_SCHEMA_PATH: directory + DATA_SCHEMA_FILE }),
    ...(envelope !== undefined && { ENVELOPE: envelope }),
    ...(messageIdAttribute !== undefined && { MESSAGE_ID_ATTRIBUTE: messageIdAttribute }),
    ...(messageIdPointer !== undefined && { MESSAGE_ID_POINTER: messageIdPointer }),
    ...(props.bodySchema !== undefined && { BODY_SCHEMA_PATH: directory + BODY_SCHEMA_FILE }),
  };
}

/** Returns problems with these props, one sentence each. */
export function messageProblems(props: MessageProps): string[] {
  const { dataSchema, bodySchema, envelope, messageIdAttribute, messageIdPointer } = props;
  const unused = WITHOUT_ENVELOPE.filter((name) => envelope !== Envelope.OPTIONAL && props[name] !== undefined);
  return [
    ...(dataSchema === undefined ? [] : schemaProblems('dataSchema', dataSchema)),
    ...unused.map((name) => `${name} only applies to messages without an envelope; set envelope: Envelope.OPTIONAL, or remove it.`),
    ...(bodySchema === undefined ? [] : schemaProblems('bodySchema', bodySchema)),
    ...(messageIdAttribute === undefined ? [] : attributeProblems(messageIdAttribute)),
    ...(messageIdPointer === undefined || isPointer(messageIdPointer)
      ? []
      : [`messageIdPointer is "${messageIdPointer}", which is not a JSON Pointer to a member; it must start with /, such as /detail/id.`]),
  ];
}

/** Checks the name of a message attribute ("Amazon SQS message metadata"). */
function attributeProblems(name: string): string[] {
  if (RESERVED.includes(name)) {
    return [`messageIdAttribute is ${name}, which redeliver itself writes; use an attribute that your producers write.`];
  }
  const isValid = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(name) && name.length <= 256 && !/^(aws|amazon)\./i.test(name);
  return isValid
    ? []
    : [
        `messageIdAttribute is "${name}", which is not a valid attribute name; use at most 256 letters, digits, _, - and single dots ` +
          'inside, not starting with AWS. or Amazon.',
      ];
}

/** Returns true for a JSON Pointer (RFC 6901) to a member, but not to the entire document. */
export function isPointer(text: string): boolean {
  return /^(\/([^~/]|~[01])*)+$/u.test(text);
}

/** Checks a pointer in a list that is passed as an environment variable. */
export function pointerProblems(pointer: string, name: string): string[] {
  if (Token.isUnresolved(pointer)) {
    return [];
  }
  if (!isPointer(pointer)) {
    return [`${name} is "${pointer}", which is not a JSON Pointer to a member; it must start with /, such as /customer/email.`];
  }
  return pointer.includes(',')
    ? [`${name} is "${pointer}", but commas separate the pointers in the function's environment; give the pointer to a member above it.`]
    : [];
}
