import type { Template } from 'aws-cdk-lib/assertions';

import type { Resource } from './stack-support';

const HASH = /[0-9A-F]{8}$/;

/** Makes a part of a template readable: references are logical ids, without `Retries` and the hash. */
export function makeReadable(value: any): any {
  if (Array.isArray(value)) {
    return value.map(makeReadable);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  if (typeof value.Ref === 'string') {
    return `{${shortId(value.Ref)}}`;
  }
  if (value['Fn::GetAtt'] !== undefined) {
    const [id, attribute] = value['Fn::GetAtt'];
    return `{${shortId(id)}.${attribute}}`;
  }
  if (value['Fn::Join'] !== undefined) {
    const [separator, parts] = value['Fn::Join'];
    return makeReadable(parts).join(separator);
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, makeReadable(member)]));
}

/** The `RecursiveLoop` of each function in a stack with an unknown region. */
export const ALLOWED_LOOP = { 'Fn::If': ['RedeliverLacksLoopDetection', '{AWS::NoValue}', 'Allow'] };

export function shortId(logicalId: string): string {
  return logicalId.replace(HASH, '').replace(/^Retries/, '');
}

/** Returns all resources of a type, by their short logical ids. */
export function resources(template: Template, type: string): Record<string, Resource> {
  return Object.fromEntries(Object.entries(template.findResources(type)).map(([id, found]) => [shortId(id), found as Resource]));
}

/** Returns all statements for a role, from any policy: `EFFECT ACTION on RESOURCE [if CONDITION]`. */
export function grants(template: Template, role: string): string[] {
  const found = resources(template, 'AWS::IAM::Role')[role];
  if (found === undefined) {
    throw new Error(`no role ${role} among ${Object.keys(resources(template, 'AWS::IAM::Role')).join(', ')}`);
  }
  const { ManagedPolicyArns: managed = [], Policies: inline = [] } = found.Properties;
  const attached = ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy'].flatMap((type) =>
    Object.values(resources(template, type)).filter(({ Properties }) => makeReadable(Properties['Roles'] ?? []).includes(`{${role}}`)),
  );
  const documents = [...inline.map((policy: any) => policy.PolicyDocument), ...attached.map(({ Properties }) => Properties['PolicyDocument'])];
  const statements = documents.flatMap((document) => document.Statement).flatMap(expandStatement);
  return [...managed.map((arn: unknown) => `managed ${JSON.stringify(arn)}`), ...new Set<string>(statements)].sort();
}

function expandStatement(statement: any): string[] {
  const { Effect, Action, NotAction, Resource: on, NotResource, Condition } = makeReadable(statement);
  if (NotAction !== undefined || NotResource !== undefined) {
    throw new Error(`a statement by exclusion: ${JSON.stringify(statement)}`);
  }
  const condition = Condition === undefined ? '' : ` if ${JSON.stringify(Condition)}`;
  return [Action].flat().flatMap((action) => [on].flat().map((resource) => `${Effect} ${action} on ${resource}${condition}`));
}

/** Returns all resources that a resource refers to and therefore depends on. */
export function referencesOf(value: any): string[] {
  if (Array.isArray(value)) {
    return value.flatMap(referencesOf);
  }
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  return Object.entries(value).flatMap(([name, member]: [string, any]) => {
    switch (name) {
      case 'Ref':
        return [member];
      case 'Fn::GetAtt':
        return [[member].flat()[0].split('.')[0]];
      case 'Fn::Sub':
        return [...[member].flat()[0].matchAll(/\$\{([\w]+)/g)].map(([, id]) => id).concat(referencesOf(member));
      case 'DependsOn':
        return [member].flat();
      default:
        return referencesOf(member);
    }
  });
}
