import * as iam from 'aws-cdk-lib/aws-iam';

/** Signs the calls to an HTTP target with SigV4 and the message-processor's role, which gets the permission to make them. */
export class SigV4 {
  /**
   * Signs calls to a function URL with the authentication type `AWS_IAM`.
   *
   * @param functionArn the `functionArn` of the `FunctionUrl`.
   */
  public static functionUrl(functionArn: string): SigV4 {
    return new SigV4({ service: 'lambda', resource: functionArn });
  }

  /**
   * Signs calls to an API Gateway method with IAM authorization.
   *
   * @param methodArn the ARN of the method, such as `api.arnForExecuteApi('POST', '/hook', 'prod')`.
   */
  public static apiGateway(methodArn: string): SigV4 {
    return new SigV4({ service: 'execute-api', resource: methodArn });
  }

  /**
   * Signs calls to a VPC Lattice service with the authentication type `AWS_IAM`. The message-processor must be in a VPC
   * that is associated with the service's network.
   *
   * @param serviceArn the service's ARN.
   */
  public static vpcLattice(serviceArn: string): SigV4 {
    return new SigV4({ service: 'vpc-lattice-svcs', resource: serviceArn });
  }

  /** @internal */
  public readonly _given: GivenSigV4;

  private constructor(given: GivenSigV4) {
    this._given = given;
  }
}

/** The service, by its name in signatures, and the resource that is called. */
export interface GivenSigV4 {
  readonly service: 'lambda' | 'execute-api' | 'vpc-lattice-svcs';
  readonly resource: string;
}

/** Returns the permissions to make the calls. */
export function sigV4Rights({ _given: { service, resource } }: SigV4): iam.PolicyStatement[] {
  switch (service) {
    case 'lambda':
      // Both have been required since October 2025 ("Control access to Lambda function URLs").
      return [
        new iam.PolicyStatement({ actions: ['lambda:InvokeFunctionUrl'], resources: [resource] }),
        new iam.PolicyStatement({
          actions: ['lambda:InvokeFunction'],
          resources: [resource],
          conditions: { Bool: { 'lambda:InvokedViaFunctionUrl': 'true' } },
        }),
      ];
    case 'execute-api':
      return [new iam.PolicyStatement({ actions: ['execute-api:Invoke'], resources: [resource] })];
    case 'vpc-lattice-svcs':
      // A resource consists of a service and a path ("Control access to VPC Lattice services using auth policies").
      return [new iam.PolicyStatement({ actions: ['vpc-lattice-svcs:Invoke'], resources: [`${resource}/*`] })];
  }
}
