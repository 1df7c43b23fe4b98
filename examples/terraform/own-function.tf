# redeliver for your own function and queue, from its CloudFormation template: docs/terraform.md. var.bucket is your
# bucket in var.region. The stack refers to the function by name, since the function needs the stack's outputs.

variable "reads_queue" {
  type    = bool
  default = false
}

locals {
  # Needs redeliver-own-function-arm64.template.yaml and zips such as redeliver-layer-arm64.zip beside this file.
  functions = toset(["layer", "failed-message-processor", "final-dlq-annotator"])
  zips      = { for name in local.functions : name => "${path.module}/redeliver-${name}-arm64.zip" }
  folder    = "redeliver/${sha256(join("", [for zip in values(local.zips) : filesha256(zip)]))}"
  # Like `aws cloudformation package`, this replaces each zip's name with its location in the bucket.
  template = replace(
    file("${path.module}/redeliver-own-function-arm64.template.yaml"),
    "/(Code|Content): redeliver-(.+)-arm64[.]zip/",
    "$1: { S3Bucket: ${var.bucket}, S3Key: ${local.folder}/$2.zip }"
  )
}

resource "aws_s3_object" "functions" {
  for_each = local.zips
  bucket   = var.bucket
  key      = "${local.folder}/${each.key}.zip"
  source   = each.value
}

resource "aws_s3_object" "template" {
  bucket  = var.bucket
  key     = "redeliver/${sha256(local.template)}.yaml"
  content = local.template
}

resource "aws_cloudformation_stack" "orders" {
  name         = "orders"
  template_url = "https://${var.bucket}.s3.${var.region}.amazonaws.com/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM"]
  parameters = {
    Prefix                   = "orders"
    FunctionName             = "charge"
    RoleName                 = aws_iam_role.charge.name
    RoleId                   = aws_iam_role.charge.unique_id
    RolePath                 = aws_iam_role.charge.path
    SourceQueueArn           = aws_sqs_queue.orders.arn
    VisibilityTimeoutSeconds = 361
    ReadsQueue               = var.reads_queue
    Policy                   = jsonencode(jsondecode(file("${path.module}/policy.json")))
  }
  depends_on = [aws_s3_object.functions]
}

resource "aws_lambda_function" "charge" {
  function_name = "charge"
  role          = aws_iam_role.charge.arn
  runtime       = "python3.13"
  handler       = "app.handler"
  filename      = "${path.module}/charge.zip"
  architectures = ["arm64"]
  timeout       = 60
  layers        = [aws_cloudformation_stack.orders.outputs["LayerArn"]]
  environment {
    # One line NAME=VALUE per variable: add your own with merge().
    variables = {
      for line in split("\n", aws_cloudformation_stack.orders.outputs["FunctionVariables"]) :
      split("=", line)[0] => trimprefix(line, "${split("=", line)[0]}=")
    }
  }
}

resource "aws_lambda_function_recursion_config" "charge" {
  function_name  = aws_lambda_function.charge.function_name
  recursive_loop = "Allow"
}

resource "aws_sqs_queue" "orders" {
  name = "orders"
  lifecycle {
    # The stack sets these and the redrive policy: omit redrive_policy.
    ignore_changes = [visibility_timeout_seconds, message_retention_seconds, max_message_size]
  }
}
