module redeliver.test/scripted

go 1.18

require github.com/aws/aws-lambda-go v1.54.0
