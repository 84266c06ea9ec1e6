# SPDX-License-Identifier: Apache-2.0
"""Contracts of proto/ as Python messages, from a descriptor set that protoc makes: nothing generated is needed."""
import os
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def load(protoc, root, *paths):
    """The files, imports first, and the message type of a full name."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "all.protoset")
        subprocess.run([protoc, "--proto_path=" + root, "--include_imports", "--descriptor_set_out=" + path, *paths],
                       check=True, cwd=root)
        with open(path, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return files, lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name.lstrip(".")))


def methods_of(files):
    """Each method's descriptor by "package.Service/Method"."""
    return {f"{file.package}.{service.name}/{method.name}": method
            for file in files for service in file.service for method in service.method}
