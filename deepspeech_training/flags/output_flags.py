"""The flags that say what comes out: checkpoints, exports, transcripts, reports."""

from __future__ import annotations

from deepspeech_training import config
from deepspeech_training.flags.spec import Flag, Group

TUNING = 'bin/lm_optimizer.py'

TRAIN, TEST, EXPORT = ('train_files',), ('test_files',), ('export_dir',)
DECODES = ('test_files', 'one_shot_infer', 'dev_wer_every')

# fmt: off
CHECKPOINTS = Group(
    'Checkpoints',
    (
        Flag('checkpoint_dir', 'path', '', '',
             'Folder from which checkpoints are loaded and in which they are saved. Without it: '
             'deepspeech_training/checkpoints in the user\'s data folder ($XDG_DATA_HOME or ~/.local/share).'),
        Flag('load_checkpoint_dir', 'path', '', '', 'Folder to load from, where it is not --checkpoint_dir.'),
        Flag('save_checkpoint_dir', 'path', '', '', 'Folder to save in, where it is not --checkpoint_dir.',
             needs=TRAIN),
        Flag('load_train', 'enum', 'auto', 'checkpoints.load_train',
             'What training starts from: the last checkpoint, the best one on the dev files, new weights (init), or '
             'whichever there is (auto).', values=config.LOAD_TRAIN, needs=TRAIN),
        Flag('load_evaluate', 'enum', 'auto', 'checkpoints.load_evaluate',
             'What testing, export and --one_shot_infer use: the best checkpoint, the last one, or the best there is '
             '(auto).', values=config.LOAD_EVALUATE),
        Flag('checkpoint_secs', 'integer', 600, 'checkpoints.checkpoint_secs',
             'Seconds between checkpoints within an epoch; 0 for one at the end of each epoch only.', needs=TRAIN),
        Flag('checkpoint_steps', 'integer', 0, 'checkpoints.checkpoint_steps',
             'Updates between checkpoints, beside those by --checkpoint_secs; 0 for none.', needs=TRAIN),
        Flag('max_to_keep', 'integer', 5, 'checkpoints.max_to_keep', 'How many checkpoints are kept.', needs=TRAIN),
        Flag('drop_source_layers', 'integer', 0, 'checkpoints.drop_source_layers',
             'Start this many of the last layers (1 to 5) anew instead of loading them, for another alphabet or '
             'language.', needs=TRAIN),
        Flag('freeze_source_layers', 'integer', 0, 'checkpoints.freeze_source_layers',
             'Train only the last layers: this many of the first ones (1 to 5; layer 1, 2, 3, the LSTM, layer 5) keep '
             'the weights that were loaded.', needs=TRAIN),
        Flag('unfreeze_at_epoch', 'integer', 0, 'checkpoints.unfreeze_at_epoch',
             'The first epoch, counted from 0 as in the log, that trains the layers of --freeze_source_layers too; 0 '
             'for never.', needs=TRAIN),
    ),
)

REPORT = Group(
    'Reports',
    (
        Flag('log_level', 'integer', 1, 'report.log_level',
             'Least important message that is shown: 0 debug (and what TensorFlow itself says), 1 info, 2 warnings, '
             '3 errors.'),
        Flag('show_progressbar', 'boolean', True, 'report.show_progressbar',
             'Show progress with speed and time left.'),
        Flag('summary_dir', 'path', '', '',
             'Folder for the TensorBoard curves. Without it: deepspeech_training/summaries in the user\'s data folder.',
             needs=TRAIN),
        Flag('summary_steps', 'integer', 100, 'report.summary_steps',
             'Steps between two histograms of variables and gradients in TensorBoard.', needs=TRAIN),
        Flag('report_count', 'integer', 5, 'report.report_count',
             'How many of the best, the median and the worst test samples are shown; for dev files in TensorBoard.',
             needs=(*TEST, 'dev_wer_every')),
        Flag('test_output_file', 'path', '', 'report.test_output_file',
             'JSON file for transcript, result, distances and loss of each test sample.', needs=TEST),
        Flag('test_report_file', 'path', '', 'report.test_report_file',
             'Report of the test: .html with aligned words and the recordings, .csv or .json.', needs=TEST),
    ),
)

DECODING = Group(
    'Decoding',
    (
        Flag('one_shot_infer', 'path', '', 'one_shot_infer', 'Audio file to transcribe with the checkpoint.'),
        Flag('beam_width', 'integer', 1024, 'decoding.beam_width',
             'Candidates that the CTC beam search keeps; more are slower and rarely better.', needs=DECODES),
        Flag('scorer_path', 'path', '', 'decoding.scorer_path',
             'Language model to decode with (.scorer, KenLM binary or ARPA file), which --export_zip packs too.',
             needs=(*DECODES, 'export_zip'), aliases=('scorer',)),
        Flag('lm_alpha', 'float', config.LM_ALPHA, '',
             'Weight of the language model; not given: the one in the .scorer, if that has one.', needs=DECODES),
        Flag('lm_beta', 'float', config.LM_BETA, '',
             'Reward for each word; not given: the one in the .scorer, if that has one.', needs=DECODES),
        Flag('hot_words', 'string', '', '',
             'Words that are more (or less) likely than the language model says, as word:boost,word:boost; a boost is '
             'added to the logarithm of the probability.', needs=DECODES),
        Flag('cutoff_prob', 'float', 1.0, 'decoding.cutoff_prob',
             'Look at the most likely characters of each frame up to this probability only.', needs=DECODES),
        Flag('cutoff_top_n', 'integer', 300, 'decoding.cutoff_top_n',
             'Look at this many characters of each frame only.', needs=DECODES),
        Flag('lm_alpha_max', 'float', 5.0, '', 'Largest --lm_alpha that the search for the best tries.', tool=TUNING),
        Flag('lm_beta_max', 'float', 5.0, '', 'Largest --lm_beta that the search for the best tries.', tool=TUNING),
        Flag('n_trials', 'integer', 2400, '', 'How many pairs of weights that search tries.', tool=TUNING),
    ),
)

EXPORT_GROUP = Group(
    'Export',
    (
        Flag('export_dir', 'path', '', 'export.export_dir',
             'Folder to export the model to. Without it nothing is exported.'),
        Flag('remove_export', 'boolean', False, 'export.remove_export',
             'Remove the files of earlier exports there, once the new one is written.', needs=EXPORT),
        Flag('export_file_name', 'string', 'output_graph', 'export.file_name',
             'Name of the exported file, without its suffix.', needs=EXPORT),
        Flag('export_batch_size', 'integer', 1, 'export.batch_size',
             'Utterances at a time in the exported graph. 0: any number, of any length.', needs=EXPORT),
        Flag('n_steps', 'integer', 16, 'export.n_steps',
             'Frames that the exported graph takes at a time: more are faster and later.', needs=EXPORT),
        Flag('export_beam_width', 'integer', 500, 'export.beam_width',
             'Beam width that the exported model asks for.', needs=EXPORT),
        Flag('export_tflite', 'boolean', False, 'export.tflite',
             'Export for TensorFlow Lite, instead of a frozen graph.', needs=EXPORT),
        Flag('export_quantize', 'boolean', True, 'export.quantize',
             'Store the weights for TensorFlow Lite in 8 bits; without, as float32.', needs=EXPORT),
        Flag('export_savedmodel', 'boolean', False, 'export.savedmodel',
             'Export a SavedModel for TensorFlow and TensorFlow Serving, instead of a frozen graph.', needs=EXPORT),
        Flag('export_onnx', 'boolean', False, 'export.onnx',
             'Export to ONNX, for ONNX Runtime, Triton and TensorRT, instead of a frozen graph; needs the package '
             'onnx.', needs=EXPORT),
        Flag('export_zip', 'boolean', False, 'export.zip',
             'Export for TensorFlow Lite, and pack the model and its scorer into a ZIP file.', needs=EXPORT),
        Flag('export_language', 'string', '', 'export.language',
             'Language of the model as a BCP 47 tag, such as en-Latn-GB.', needs=EXPORT),
        Flag('export_author_id', 'string', 'author', 'export.author_id', 'Who made the model, in one word.',
             needs=EXPORT),
        Flag('export_model_name', 'string', 'model', 'export.model_name', 'Name of the model, without slashes.',
             needs=EXPORT),
        Flag('export_model_version', 'string', '0.0.1', 'export.model_version',
             'Version of the model, as in https://semver.org. A whole number also becomes the folder of a SavedModel, '
             'which is otherwise counted up.', needs=EXPORT),
        Flag('export_contact_info', 'string', '', 'export.contact_info', 'How to reach the author.', needs=EXPORT),
        Flag('export_license', 'string', '', 'export.license', 'Licence of the model, as an SPDX identifier.',
             needs=EXPORT),
        Flag('export_min_ds_version', 'string', '', 'export.min_ds_version',
             'Oldest DeepSpeech version that the model runs in.', needs=EXPORT),
        Flag('export_max_ds_version', 'string', '', 'export.max_ds_version',
             'Newest DeepSpeech version that the model runs in.', needs=EXPORT),
        Flag('export_description', 'string', '', 'export.description',
             'What a user of the model should know: data, results, limits. Markdown.', needs=EXPORT),
    ),
)

OUTPUT_GROUPS = (CHECKPOINTS, REPORT, DECODING, EXPORT_GROUP)
