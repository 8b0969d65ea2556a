/* plan of ONNX files as users meet it: exit code, the first words of stderr, something that stdout holds. */
#define WORK DCT_BINARY_DIR "/test_plan_onnx."

#include "cli/command_support.h"
#include "onnx/onnx.h"
#include "support/onnx_build.h"

static void write_model(const char *name, pb *graph) {
    pb model = onnx_model(graph);
    write_whole(name, (const char *)model.bytes, model.n);
    pb_free(&model);
}

/* x[batch, 4] ─ MatMul ─ Relu ─ Softmax ─ y, and a node that nobody knows. */
static int make_files(void **state) {
    (void)state;
    begin_files();
    pb graph = {0}, odd = {0};
    pb_add(&graph, 11, onnx_info("x", "f?batchx4"));
    pb_add(&graph, 5, onnx_tensor("w", "f4x8"));
    pb_add(&graph, 1, onnx_node("MatMul", "x w", "a", ""));
    pb_add(&graph, 1, onnx_node("Relu", "a", "b", ""));
    pb_add(&graph, 1, onnx_node("Softmax", "b", "y", "axis=1"));
    pb_add(&graph, 12, onnx_info("y", "f"));
    pb_add(&odd, 1, onnx_node("Frob", "", "y", ""));
    write_model("net.onnx", &graph);
    write_model("odd.onnx", &odd);
    write_whole("text.onnx", "0123456789", 10);
    return 0;
}

static const struct {
    const char *line;
    int code;
    const char *err, *out; /* NULL: nothing at all */
} cases[] = {
    {"plan $Wnet.onnx --dim batch=2", 0, NULL, "intermediate                 64"},
    {"plan -m $Wnet.onnx --input x=2x4 --text", 0, NULL, "MatMul ''"},
    {"plan $Wnet.onnx --dim batch=2 --json --svg $Wsvg", 0, NULL, "\"load_bytes\": 64"},
    {"plan $Wnet.onnx", 1, "dctms: 1 dimension is open: 0 'batch' of 'x'", NULL},
    {"plan $Wnet.onnx --dim batch=2 --value y=1", 1, "dctms: the model has no input 'y'", NULL},
    {"plan $Wnet.onnx --dim batch=x", 1, "dctms: dimension 'batch=x': NAME=N is expected", NULL},
    {"plan $Wnet.onnx --input x=2x5", 1, "dctms: input 'x': dimension 1 is 4, not 5", NULL},
    {"plan $M --dim batch=1", 1, "dctms: --dim does not go with a model that is no ONNX file", NULL},
    {"plan $Wnet.onnx --html $Whtml", 1, "dctms: --html does not go with an ONNX file", NULL},
    {"plan $Wnet.onnx --svg $Wnet.onnx", 1, "dctms: " WORK "net.onnx would be written over", NULL},
    {"plan $Wodd.onnx", 2, "node 0, Frob '': there is no rule for it\ndctms: " WORK "odd.onnx: 1 of 1 nodes", NULL},
    {"plan $Wtext.onnx", 2, "dctms: " WORK "text.onnx: cut off, or no ONNX file", NULL},
    {"plan $Wnowhere.onnx", 2, "dctms: " WORK "nowhere.onnx: ", NULL},
};

static void every_command_answers_as_stated(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = start(cases[i].line);
        expect_code(&c, cases[i].line, cases[i].code);
        const char *err = cases[i].err, *out = cases[i].out;
        if (err == NULL ? c.n[1] != 0 : strncmp(c.text[1], err, strlen(err)) != 0) fail_msg("%s: %s", cases[i].line, c.text[1]);
        if (out == NULL ? c.n[0] != 0 : strstr(c.text[0], out) == NULL) fail_msg("%s: %s", cases[i].line, c.text[0]);
        drop(&c);
    }
    assert_true(is_there("svg"));
}

static void a_build_without_the_library_says_so(void **state) {
    (void)state;
    if (dct_onnx_is_supported()) skip();
    child c = start("plan $Wnet.onnx --dim batch=2");
    expect_code(&c, "plan", 2);
    assert_non_null(strstr(c.text[1], "this build reads no ONNX files"));
    drop(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_answers_as_stated),
        cmocka_unit_test(a_build_without_the_library_says_so),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
