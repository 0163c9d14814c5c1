"""An ONNX file as straight-line source for a framework of Python.

What depends on shapes and constants only is computed here, so what is left are tensor operations with literal
attributes. Each framework's module has a table from op to the expression that computes it, or to a function
(node, *argument names) that gives the expression.
"""
import types

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator


class Graph:
    def __init__(self, path, inputs):
        model = onnx.load(path)
        graph = model.graph
        for i in graph.input:
            if i.name in inputs:
                i.CopyFrom(helper.make_tensor_value_info(i.name, i.type.tensor_type.elem_type, inputs[i.name].shape))
        for o in graph.output:
            o.type.tensor_type.ClearField("shape")
        self.constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.inputs, self.outputs = list(inputs), [o.name for o in graph.output]
        self.infer(model)
        while self.fold(model):
            self.infer(model)
        for o in graph.output:
            o.CopyFrom(helper.make_tensor_value_info(o.name, o.type.tensor_type.elem_type, self.shapes.get(o.name)))
        self.model = model
        self.nodes = []
        for n in graph.node:
            attrs = {a.name: helper.get_attribute_value(a) for a in n.attribute}
            attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
            self.nodes.append(types.SimpleNamespace(op=n.op_type, inputs=list(n.input), outputs=list(n.output), attrs=attrs))

    def infer(self, model):
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
        self.shapes = {k: v.shape for k, v in self.constants.items()}
        for v in [*inferred.input, *inferred.value_info, *inferred.output]:
            dims = v.type.tensor_type.shape.dim
            if v.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
                self.shapes[v.name] = tuple(d.dim_value for d in dims)

    def fold(self, model):
        """Computes the nodes whose inputs are known; true if there were any."""
        left, found = [], False
        for n in model.graph.node:
            if n.op_type == "Shape" and n.input[0] in self.shapes:
                values = [np.array(self.shapes[n.input[0]], np.int64)]
                values[0] = values[0][slice(*[next((a.i for a in n.attribute if a.name == k), None) for k in ("start", "end")])]
            elif all(i in self.constants or not i for i in n.input):
                values = ReferenceEvaluator(n).run(None, {i: self.constants[i] for i in n.input if i})
            else:
                left.append(n)
                continue
            found = True
            for name, value in zip(n.output, values):
                self.constants[name] = np.asarray(value)
                model.graph.initializer.append(numpy_helper.from_array(self.constants[name], name))
        del model.graph.node[:]
        model.graph.node.extend(left)
        return found

    def users(self, name):
        return [n for n in self.nodes if name in n.inputs]

    def replace(self, old, new):
        """Puts the node `new` where the last of the nodes `old` stands."""
        self.nodes[self.nodes.index(old[-1])] = new
        self.nodes = [n for n in self.nodes if not any(n is o for o in old)]

    def chain(self, node, *ops):
        """`node` and the nodes that follow it, one user each, if their ops are `ops`; None otherwise."""
        found = [node]
        for op in ops:
            users = self.users(found[-1].outputs[0])
            if len(users) != 1 or users[0].op != op or found[-1].outputs[0] in self.outputs:
                return None
            found.append(users[0])
        return found

    def recognise(self, kinds):
        """Linear, Silu and Attention where the graph spells them out: one call each in a framework that has them."""
        for n in list(self.nodes):
            if n.op == "MatMul" and "Linear" in kinds and n.inputs[1] in self.constants and self.constants[n.inputs[1]].ndim == 2:
                found = self.chain(n, "Add")
                bias = found and next((i for i in found[1].inputs if i != n.outputs[0]), None)
                if bias in self.constants and self.constants[bias].ndim == 1:
                    self.constants[n.inputs[1] + "_t"] = np.ascontiguousarray(self.constants[n.inputs[1]].T)
                    self.replace(found, types.SimpleNamespace(op="Linear", inputs=[n.inputs[0], n.inputs[1] + "_t", bias],
                                                              outputs=found[1].outputs, attrs={}))
            elif n.op == "Sigmoid" and "Silu" in kinds:
                found = self.chain(n, "Mul")
                if found and n.inputs[0] in found[1].inputs:
                    self.replace(found, types.SimpleNamespace(op="Silu", inputs=n.inputs, outputs=found[1].outputs, attrs={}))
            elif n.op == "MatMul" and "Attention" in kinds:
                scaled = self.chain(n, "Div", "Add", "Softmax", "MatMul")
                key = next((m for m in self.nodes if m.outputs[0] == n.inputs[1] and m.op == "Transpose"), None)
                if not scaled or not key or self.constants.get(scaled[1].inputs[1], np.zeros(2)).size != 1:
                    continue
                perm = key.attrs["perm"]
                mask = next(i for i in scaled[2].inputs if i != scaled[1].outputs[0])
                if perm[-2:] == [len(perm) - 1, len(perm) - 2] and scaled[3].attrs.get("axis", -1) in (-1, len(perm) - 1):
                    self.replace([key, *scaled], types.SimpleNamespace(
                        op="Attention", inputs=[n.inputs[0], key.inputs[0], scaled[4].inputs[1], mask], outputs=scaled[4].outputs,
                        attrs={"scale": 1 / float(self.constants[scaled[1].inputs[1]].reshape(()))}))

    def source(self, table, finish=str):
        """Python text of forward(self, <inputs>), and the constants it uses: attribute name -> array.

        `finish` makes the expression of an output from its name.
        """
        names = {k: f"x{n}" for n, k in enumerate(self.inputs)}
        used = {}

        def name(value):
            if value in self.constants and value not in names:
                used[f"c{len(used)}"] = self.constants[value]
                names[value] = f"self.c{len(used) - 1}"
            return names.setdefault(value, f"v{len(names)}") if value else "None"

        lines = []
        for n in self.nodes:
            if n.op not in table:
                raise NotImplementedError(f"op {n.op}")
            # Axes, sizes, limits and the like, for rules that want literals.
            n.values = [self.constants[i].tolist() if i in self.constants and self.constants[i].size <= 64 else None
                        for i in n.inputs]
            n.shape, n.input_shapes = self.shapes.get(n.outputs[0]), [self.shapes.get(i) for i in n.inputs]
            n.names = [name(o) for o in n.outputs]
            rule = table[n.op]
            if isinstance(rule, str):
                text = rule.format(*map(name, n.inputs))
            else:
                text = rule(n, *map(name, n.inputs))
            lines.append(f"    {', '.join(n.names)} = {text}")
        arguments = ", ".join(["self"] + [names[k] for k in self.inputs])
        return f"def forward({arguments}):\n" + "\n".join(lines) + f"\n    return ({', '.join(finish(name(o)) for o in self.outputs)},)\n", used
