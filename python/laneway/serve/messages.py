"""The messages of KServe's gRPC protocol (package inference), and of the extensions of it that are
served, as classes of protobuf. They are described here, in the protocol's own names and numbers, so
nothing has to be generated; fields that nobody looks at are left out, which protobuf passes over.
A pool of descriptors of our own keeps them apart from a client of the protocol in one process."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"

# Of a message its fields: number, name, type; * behind a type is a list.
_NAMED = ("1 name string", "2 version string")
_PARAMETERS = "ParametersEntry*"  # a map is a list of entries; only their names are looked at
_FIELDS: dict[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("1 live bool",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("1 ready bool",),
    "ModelReadyRequest": _NAMED,
    "ModelReadyResponse": ("1 ready bool",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": (*_NAMED, "3 extensions string*"),
    "ModelMetadataRequest": _NAMED,
    "ModelMetadataResponse": (
        "1 name string",
        "2 versions string*",
        "3 platform string",
        "4 inputs TensorMetadata*",
        "5 outputs TensorMetadata*",
    ),
    "TensorMetadata": ("1 name string", "2 datatype string", "3 shape int64*"),
    "ModelConfigRequest": _NAMED,
    "ModelConfigResponse": ("1 config ModelConfig",),
    "ModelConfig": (
        "1 name string",
        "2 platform string",
        "4 max_batch_size int32",
        "5 input ModelInput*",
        "6 output ModelOutput*",
    ),
    "ModelInput": ("1 name string", "2 data_type DataType", "4 dims int64*"),
    "ModelOutput": ("1 name string", "2 data_type DataType", "3 dims int64*"),
    "ModelStatisticsRequest": _NAMED,
    "ModelStatisticsResponse": ("1 model_stats ModelStatistics*",),
    "ModelStatistics": (
        *_NAMED,
        "3 last_inference uint64",
        "4 inference_count uint64",
        "5 execution_count uint64",
        "6 inference_stats InferStatistics",
        "7 batch_stats InferBatchStatistics*",
    ),
    "InferStatistics": (
        "1 success StatisticDuration",
        "2 fail StatisticDuration",
        "3 queue StatisticDuration",
        "5 compute_infer StatisticDuration",
    ),
    "InferBatchStatistics": ("1 batch_size uint64", "3 compute_infer StatisticDuration"),
    "StatisticDuration": ("1 count uint64", "2 ns uint64"),
    "RepositoryIndexRequest": ("1 repository_name string", "2 ready bool"),
    "RepositoryIndexResponse": ("1 models ModelIndex*",),
    "ModelIndex": (*_NAMED, "3 state string", "4 reason string"),
    "RepositoryModelLoadRequest": ("2 model_name string", f"3 parameters {_PARAMETERS}"),
    "RepositoryModelLoadResponse": (),
    "RepositoryModelUnloadRequest": ("2 model_name string",),
    "RepositoryModelUnloadResponse": (),
    "ParametersEntry": ("1 key string",),
    "ModelInferRequest": (
        "1 model_name string",
        "2 model_version string",
        "3 id string",
        "5 inputs InferInputTensor*",
        "6 outputs InferRequestedOutputTensor*",
        "7 raw_input_contents bytes*",
    ),
    "InferInputTensor": (
        "1 name string",
        "2 datatype string",
        "3 shape int64*",
        f"4 parameters {_PARAMETERS}",
        "5 contents InferTensorContents",
    ),
    "InferTensorContents": (
        "1 bool_contents bool*",
        "2 int_contents int32*",
        "3 int64_contents int64*",
        "4 uint_contents uint32*",
        "6 fp32_contents float*",
        "7 fp64_contents double*",
    ),
    "InferRequestedOutputTensor": ("1 name string", f"2 parameters {_PARAMETERS}"),
    "ModelInferResponse": (
        "1 model_name string",
        "2 model_version string",
        "3 id string",
        "5 outputs InferOutputTensor*",
        "6 raw_output_contents bytes*",
    ),
    "InferOutputTensor": ("1 name string", "2 datatype string", "3 shape int64*"),
}
_DATA_TYPES = {
    "INVALID": 0,
    "BOOL": 1,
    "UINT8": 2,
    "INT8": 6,
    "INT16": 7,
    "INT32": 8,
    "INT64": 9,
    "FP16": 10,
    "FP32": 11,
    "FP64": 12,
    "BF16": 14,
}


def _described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="laneway/inference.proto", package="inference", syntax="proto3"
    )
    kinds = file.enum_type.add(name="DataType")
    for name, number in _DATA_TYPES.items():
        kinds.value.add(name=f"TYPE_{name}", number=number)
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for text in fields:
            number, field_name, kind = text.split()
            field = message.field.add(name=field_name, number=int(number))
            many, kind = kind.endswith("*"), kind.rstrip("*")
            field.label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
            if kind in _FIELDS or kind == "DataType":
                field.type_name = f".inference.{kind}"
                field.type = field.TYPE_MESSAGE if kind in _FIELDS else field.TYPE_ENUM
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_described())
    found = (pool.FindMessageTypeByName(f"inference.{name}") for name in _FIELDS)
    return {one.name: message_factory.GetMessageClass(one) for one in found}


CLASSES: dict[str, Any] = _classes()
