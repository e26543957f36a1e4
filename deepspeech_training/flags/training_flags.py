"""The flags that say what is trained: data, features, model, optimizer, schedule, devices."""

from __future__ import annotations

from deepspeech_training import config
from deepspeech_training.flags.spec import Flag, Group

TRAIN, DEV, TEST = ('train_files',), ('dev_files',), ('test_files',)

# fmt: off
DATA = Group(
    'Data',
    (
        Flag('train_files', 'paths', '', 'data.train_files',
             'Data sets to train on: CSV files, JSON lines, tar files or sample databases. They are merged. Without '
             'them nothing is trained.'),
        Flag('auto_input_dataset', 'path', '', 'data.auto_input_dataset',
             'One CSV file, or JSON lines, to be split into training, dev and test data (80, 10 and 10%), by speaker '
             'where that is known; makes the alphabet too, unless --alphabet_config_path is given.'),
        Flag('train_weights', 'string', '', '',
             'How often an epoch takes the samples of a training file, as in a.csv=2,b.csv=0.5: each one twice, and '
             'half of them, in turns. Files that are not named have 1.', needs=TRAIN),
        Flag('dev_files', 'paths', '', 'data.dev_files',
             'Data sets to validate on after each epoch, each reported by itself; their mean loss decides which '
             'model is the best, or their WER (--best_by).', needs=TRAIN),
        Flag('test_files', 'paths', '', 'data.test_files',
             'Data sets to test on, each reported by itself. Without them nothing is tested.'),
        Flag('metrics_files', 'paths', '', 'data.metrics_files',
             'Data sets whose loss is computed and shown after each epoch without any influence on training.',
             needs=TRAIN),
        Flag('on_bad_sample', 'enum', 'error', 'data.on_bad_sample',
             'What to do when a line or its audio cannot be used: end with an error before the first step, or leave '
             'it out and list it beside the checkpoint.', values=config.ON_BAD_SAMPLE),
        Flag('limit_train', 'integer', 0, 'data.limit_train',
             'Use at most this many training samples; 0 for all.', needs=TRAIN),
        Flag('limit_dev', 'integer', 0, 'data.limit_dev',
             'Use at most this many samples of each dev file; 0 for all.', needs=DEV),
        Flag('limit_test', 'integer', 0, 'data.limit_test',
             'Use at most this many samples of each test file; 0 for all.', needs=TEST),
        Flag('reverse_train', 'boolean', False, 'data.reverse_train',
             'Train on the largest files first instead of the smallest: shows at once whether memory suffices.',
             needs=TRAIN),
        Flag('reverse_dev', 'boolean', False, 'data.reverse_dev',
             'Validate on the largest files first.', needs=DEV),
        Flag('reverse_test', 'boolean', False, 'data.reverse_test',
             'Test on the largest files first.', needs=TEST),
        Flag('shuffle_batches', 'boolean', False, 'data.shuffle_batches',
             'Give the batches a new order in every epoch, drawn from --random_seed. Otherwise they go by file size.',
             needs=TRAIN),
        Flag('shuffle_start', 'integer', 1, 'data.shuffle_start',
             'The first epoch, counted from 0, whose batches are shuffled.', needs=('shuffle_batches',)),
        Flag('shuffle_buffer', 'integer', 1000, 'data.shuffle_buffer',
             'Batches among which the next one is drawn.', needs=('shuffle_batches',)),
        Flag('bucket_batches', 'boolean', False, 'data.bucket_batches',
             'Sort the training samples by duration instead of file size, and end a batch before more than 5% of it '
             'would be padding; it has --train_batch_size samples at most.', needs=TRAIN),
        Flag('process_ahead', 'integer', 16, 'data.process_ahead',
             'Batches that are prepared while others are computed.'),
        Flag('read_buffer', 'size', '1MB', 'data.read_buffer',
             'Buffer for reading audio files, in bytes or with KB, MB, GB or TB.'),
        Flag('feature_cache', 'path', '', 'data.feature_cache',
             'Folder in which features are kept, to be read in later epochs and runs instead of the audio. Several '
             'runs and settings may share it.', needs=('train_files', 'test_files')),
        Flag('cache_for_epochs', 'integer', 0, 'data.cache_for_epochs',
             'After how many epochs cached features that were augmented are computed anew; 0 or -1 for never. Others '
             'are always the same.', needs=('augment',)),
        Flag('augment', 'multi_string', None, 'data.augment',
             'An augmentation of the training samples and its parameters, as in volume[p=0.1,dbfs=-10:-40]; may be '
             'given several times. doc/augmentation.md has them all.', needs=TRAIN),
    ),
)

FEATURES = Group(
    'Features',
    (
        Flag('feature_win_len', 'integer', 32, 'features.window_ms', 'Length of an analysis window in milliseconds.'),
        Flag('feature_win_step', 'integer', 20, 'features.step_ms',
             'Milliseconds from one window to the next: the duration of a frame.'),
        Flag('audio_sample_rate', 'integer', 16000, 'features.sample_rate',
             'Sample rate in Hz that the model works at.'),
        Flag('normalize_sample_rate', 'boolean', True, 'features.normalize_sample_rate',
             'Resample audio of another rate. Otherwise such files count as bad samples.'),
        Flag('audio_channel', 'integer', 0, 'features.channel',
             'Which channel of audio with several is used, counted from 1; 0 for the mean of all. Files without that '
             'channel count as bad samples.'),
        Flag('feature_backend', 'enum', 'tensorflow', 'features.backend',
             "What computes the MFCCs: the graph, as in DeepSpeech 0.9, or the package python_speech_features, for "
             'models that were trained that way.', values=config.FEATURE_BACKENDS),
        Flag('alphabet_config_path', 'path', 'data/alphabet.txt', 'data.alphabet_config_path',
             'File with the characters that the model can write, one a line.'),
        Flag('unicode_normalization', 'enum', 'NFC', 'data.unicode_normalization',
             'Unicode normal form of the alphabet and of all transcripts: letters with accents as one character '
             '(NFC), or as letter and accents (NFD), whichever way files have them; none leaves them as they are.',
             values=config.UNICODE_NORMALIZATIONS),
        Flag('bytes_output_mode', 'boolean', False, 'data.bytes_output_mode',
             'Let the model write the bytes of UTF-8 instead of the characters of an alphabet: text of any language. '
             'It has 256 outputs then; --alphabet_config_path is not read.'),
    ),
)

MODEL = Group(
    'Model',
    (
        Flag('n_hidden', 'integer', 2048, 'model.n_hidden', 'Width of the hidden layers.'),
        Flag('layer_norm', 'boolean', False, 'model.layer_norm',
             'Normalise the outputs of the feed-forward layers (layer normalisation).'),
        Flag('relu_clip', 'float', 20.0, 'model.relu_clip', 'Upper limit of the ReLU activations.'),
        Flag('dropout_rate', 'float', 0.05, '',
             'Share of the activations of layer 1 that training drops, and of the layers 2, 3 and 6 unless they have '
             'a rate of their own.', needs=TRAIN),
        Flag('dropout_rate2', 'float', -1.0, '', 'The same for layer 2; -1 for --dropout_rate.', needs=TRAIN),
        Flag('dropout_rate3', 'float', -1.0, '', 'The same for layer 3; -1 for --dropout_rate.', needs=TRAIN),
        Flag('dropout_rate4', 'float', 0.0, '', 'The same for layer 4, the LSTM; -1 for --dropout_rate.', needs=TRAIN),
        Flag('dropout_rate5', 'float', 0.0, '', 'The same for layer 5; -1 for --dropout_rate.', needs=TRAIN),
        Flag('dropout_rate6', 'float', -1.0, '',
             'The same for layer 6, whose input is dropped; -1 for --dropout_rate.', needs=TRAIN),
        Flag('lstm_implementation', 'enum', 'auto', 'model.lstm',
             'How the LSTM is computed: hoisted (fast on CPUs), block (TensorFlow\'s BlockLSTM), cudnn (GPU only), '
             'unrolled (plain operations). All give the same results; auto chooses by device.',
             values=config.LSTM_IMPLEMENTATIONS),
        Flag('train_cudnn', 'boolean', False, 'parallel.train_cudnn',
             "Compute the LSTM with CuDNN, on NVIDIA GPUs only; the same as --lstm_implementation cudnn."),
        Flag('random_seed', 'integer', 4568, 'random_seed',
             'Seed of the initial weights, of dropout and of the order of batches.'),
    ),
)

TRAINING = Group(
    'Training',
    (
        Flag('epochs', 'integer', 75, 'schedule.epochs', 'How often to go through the training files.', needs=TRAIN),
        Flag('train_batch_size', 'integer', 1, 'data.train_batch_size',
             'Samples in a training batch of each tower.', needs=TRAIN),
        Flag('train_batch_frames', 'integer', 0, 'data.train_batch_frames',
             'Feature frames in a training batch of each tower at most, padding included, so that batches of long '
             'utterances have fewer of them; --train_batch_size is the most samples then. 0 for any.', needs=TRAIN),
        Flag('probe_longest', 'boolean', False, 'schedule.probe_longest',
             'Before the first step, compute the gradients of the largest batch and throw them away: shows at once '
             'whether memory suffices.', needs=TRAIN),
        Flag('dev_batch_size', 'integer', 1, 'data.dev_batch_size',
             'Samples in a validation batch of each tower.', needs=('dev_files', 'metrics_files')),
        Flag('test_batch_size', 'integer', 1, 'data.test_batch_size',
             'Samples in a test batch. Does not change the results.', needs=TEST),
        Flag('dev_wer_every', 'integer', 0, 'schedule.dev_wer_every',
             'Epochs after which the dev files are decoded too, for WER, CER and transcripts in TensorBoard; 0 for '
             'never.', needs=DEV),
        Flag('best_by', 'enum', 'loss', 'schedule.best_by',
             'What decides which model is the best: the loss on the dev files, or their WER, in the epochs in which '
             '--dev_wer_every computes it. --early_stop and --reduce_lr_on_plateau go by the loss.',
             values=config.BEST_BY, needs=DEV),
        Flag('learning_rate', 'float', 0.001, 'optimizer.learning_rate', 'Learning rate of Adam.', needs=TRAIN),
        Flag('beta1', 'float', 0.9, 'optimizer.beta1', 'Decay of Adam\'s mean of the gradients.', needs=TRAIN),
        Flag('beta2', 'float', 0.999, 'optimizer.beta2', 'Decay of Adam\'s mean of their squares.', needs=TRAIN),
        Flag('epsilon', 'float', 1e-8, 'optimizer.epsilon', "Adam's guard against division by zero.", needs=TRAIN),
        Flag('early_stop', 'boolean', False, 'schedule.early_stop',
             'End training when the loss on the dev files has not improved for --es_epochs epochs.', needs=TRAIN),
        Flag('es_epochs', 'integer', 25, 'schedule.es_epochs',
             'Epochs without improvement after which --early_stop ends training.', needs=('early_stop',)),
        Flag('es_min_delta', 'float', 0.05, 'schedule.es_min_delta',
             'How much the dev loss must fall to count as an improvement, for --early_stop and '
             '--reduce_lr_on_plateau.', needs=('early_stop', 'reduce_lr_on_plateau')),
        Flag('reduce_lr_on_plateau', 'boolean', False, 'schedule.reduce_lr_on_plateau',
             'When the dev loss has not improved for --plateau_epochs epochs, go back to the best model and go on '
             'with a lower learning rate.', needs=TRAIN),
        Flag('plateau_epochs', 'integer', 10, 'schedule.plateau_epochs',
             'Epochs without improvement after which the learning rate is reduced; fewer than --es_epochs.',
             needs=('reduce_lr_on_plateau',)),
        Flag('plateau_reduction', 'float', 0.1, 'schedule.plateau_reduction',
             'What the learning rate is multiplied by then.', needs=('reduce_lr_on_plateau',)),
        Flag('force_initialize_learning_rate', 'boolean', False, 'checkpoints.force_initialize_learning_rate',
             'Start with --learning_rate even when the checkpoint holds a reduced one.', needs=TRAIN),
        Flag('lr_warmup_steps', 'integer', 0, 'schedule.lr_warmup_steps',
             'Let the learning rate rise linearly over the first updates, this many.', needs=TRAIN),
        Flag('lr_schedule', 'enum', 'constant', 'schedule.lr_schedule',
             'How the learning rate goes on: constant, or cosine, down to --lr_final_fraction of it at the end of the '
             'run. --reduce_lr_on_plateau lowers either.', values=config.LR_SCHEDULES, needs=TRAIN),
        Flag('lr_final_fraction', 'float', 0.01, 'schedule.lr_final_fraction',
             'Share of the learning rate that a cosine schedule ends with.', needs=('lr_schedule',)),
        Flag('accumulate_steps', 'integer', 1, 'parallel.accumulate_steps',
             'Add up the gradients of this many batches of each tower before one update, which is that of a batch '
             'as many times larger.', needs=TRAIN),
        Flag('grad_clip_norm', 'float', 0.0, 'parallel.grad_clip_norm',
             'Scale gradients whose global norm, after averaging, is above this down to it; 0 for never.',
             needs=TRAIN),
        Flag('max_bad_steps', 'integer', 20, 'schedule.max_bad_steps',
             'A step whose loss is not finite changes nothing; after this many in a row training ends with status 3.',
             needs=TRAIN),
    ),
)

DEVICES = Group(
    'Devices and threads',
    (
        Flag('parallel', 'enum', 'hybrid', 'parallel.parallel',
             'How several devices share the work. hybrid: a tower with its own batch on each, one update from the '
             'average of their gradients. sync: one batch at a time, on one device after another. async: each tower '
             'updates on its own, without waiting for the others.',
             values=config.STRATEGIES),
        Flag('cpu_towers', 'integer', 0, 'parallel.cpu_towers',
             'Towers on this many virtual CPU devices, to try out towers without GPUs. 0: one tower on each GPU, or '
             'one on the CPU where there is none.'),
        Flag('optimizer_sharding', 'boolean', False, 'parallel.optimizer_sharding',
             "Spread Adam's moments over the towers' devices, or under --horovod over the processes, instead of "
             'having all of them everywhere. The results and the checkpoints are the same.', needs=TRAIN),
        Flag('horovod', 'boolean', False, 'parallel.horovod',
             'Train with several processes, one a GPU, which horovodrun or mpirun has started, on one host or many.'),
        Flag('horovod_lr_scaling', 'enum', 'linear', 'parallel.horovod_lr_scaling',
             'What the learning rate is multiplied by under --horovod: the number of processes (linear), its root '
             '(sqrt), or 1 (none).', values=config.LR_SCALINGS, needs=('horovod',)),
        Flag('checkpoint_per_node', 'boolean', False, 'parallel.checkpoint_per_node',
             'Write checkpoints on every host, for hosts without a common file system. Otherwise only the first '
             'process writes them.', needs=('horovod',)),
        Flag('automatic_mixed_precision', 'boolean', False, '',
             'Compute the products of the model in half precision, everything else in float32. Checkpoints are the '
             'same with and without.'),
        Flag('mixed_precision_type', 'enum', 'auto', '',
             'Which half precision: bfloat16, or float16 with a loss scale, on GPUs only. auto: bfloat16 on CPUs and '
             'where all GPUs have it (compute capability 8.0), else float16.',
             values=config.MIXED_PRECISION_TYPES, needs=('automatic_mixed_precision',)),
        Flag('inter_op_parallelism_threads', 'integer', 0, 'parallel.inter_op_threads',
             "Threads that run TensorFlow's operations side by side; 0 lets TensorFlow decide."),
        Flag('intra_op_parallelism_threads', 'integer', 0, 'parallel.intra_op_threads',
             'Threads inside one operation; 0 lets TensorFlow decide.'),
        Flag('use_allow_growth', 'boolean', False, 'parallel.use_allow_growth',
             'Take GPU memory as it is needed instead of all at the start.'),
        Flag('log_placement', 'boolean', False, 'parallel.log_placement',
             'Write down on which device each operation runs.'),
        Flag('load_cudnn', 'boolean', False, 'checkpoints.load_cudnn',
             'Allow for a checkpoint that DeepSpeech wrote with CuDNN\'s LSTM. It is recognised without it, too.'),
    ),
)

TRAINING_GROUPS = (DATA, FEATURES, MODEL, TRAINING, DEVICES)
